//! `[volumes]`: storage that outlives the nodes.

use serde_json::json;

use crate::written::table::table;
use crate::written::{At, Choice, Key, Reader, Shape, Source, Text, Written};

table! {
    /// Storage that outlives the nodes.
    VolumesTable {
        /// slurmctld's state and the accounting database: `/var/lib/state` on the control node.
        "state" => state: Volume, otherwise "`{ mode = \"manage\", size = \"10 GiB\" }`";
        /// The users' home directories: `/home` on every node.
        "home" => home: Volume, otherwise "`{ mode = \"manage\", size = \"10 GiB\" }`";
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeMode {
    Manage,
    Attach,
    None,
}

impl Choice for VolumeMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("manage", VolumeMode::Manage), ("attach", VolumeMode::Attach), ("none", VolumeMode::None)];
}

table! {
    /// A volume: one that Kiln creates, one that exists, or none.
    VolumeTable {
        /// `manage`: Kiln creates the volume as `CLUSTER-state` or `CLUSTER-home`, and `kiln destroy` deletes it unless `--keep-volumes` is given. `attach`: the volume exists under `name` and is never deleted. `none`: the data is on the root disk of the node and is lost when the node is rebuilt; with `home`, every node has its own `/home`.
        "mode" => mode: At<VolumeMode>, otherwise "`\"manage\"`";
        /// Size of a managed volume, e.g. `20 GiB`.
        "size" => size: Text, otherwise "`\"10 GiB\"`";
        /// Name of the volume to attach: lower-case letters, digits and `-`.
        "name" => name: Text, otherwise "required with `attach`";
    }
}

/// A volume table, or its mode alone as a string.
#[derive(Debug, Default)]
pub(crate) struct Volume(pub VolumeTable);

impl Written for Volume {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        if matches!(source.shape, Shape::Table(_)) {
            return VolumeTable::read(source, reader).map(Volume);
        }
        if !matches!(source.shape, Shape::Value(toml_edit::Value::String(_))) {
            reader.wrong_type(source, "a table, or the volume's mode as a string");
            return None;
        }
        let mode = At::<VolumeMode>::read(source, reader)?;
        Some(Volume(VolumeTable { at: source.span.clone(), mode: Some(mode), ..VolumeTable::default() }))
    }

    fn schema() -> serde_json::Value {
        json!({"oneOf": [VolumeTable::schema(), At::<VolumeMode>::schema()]})
    }

    fn keys() -> Vec<Key> {
        VolumeTable::keys()
    }
}
