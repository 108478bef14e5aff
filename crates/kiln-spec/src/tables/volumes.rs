//! `[volumes]`: storage that outlives the nodes.

use std::ops::Range;

use crate::cloud::CloudFacts;
use crate::diagnostic::Findings;
use crate::merge::default_text;
use crate::units::size_gib;
use crate::validate::names;
use crate::written::table::table;
use crate::written::{At, Choice, Key, List, Reader, Shape, Source, Text, Written};
use serde_json::json;

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
    /// On a file server of the site.
    Nfs,
    FileStorage,
    None,
}

impl Choice for VolumeMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("manage", VolumeMode::Manage),
        ("attach", VolumeMode::Attach),
        ("file_storage", VolumeMode::FileStorage),
        ("nfs", VolumeMode::Nfs),
        ("none", VolumeMode::None),
    ];
}

table! {
    /// A volume: one that Kiln creates, one that exists, or none.
    VolumeTable {
        /// `manage`: Kiln creates the volume as `CLUSTER-state` or `CLUSTER-home`, and `kiln destroy` deletes it unless `--keep-volumes` is given. `attach`: the volume exists under `name` and is never deleted. `file_storage`, for `home` on Oracle Cloud: the home directories and Kiln's share are file systems of File Storage, which grow by themselves. `nfs`, for `home` alone: the directories are on a file server of the site, and every node mounts `source`. `none`: the data is on the root disk of the node and is lost when the node is rebuilt; with `home`, every node has its own `/home`.
        "mode" => mode: At<VolumeMode>, otherwise "`\"manage\"`";
        /// Size of a managed volume, e.g. `20 GiB`.
        "size" => size: Text, otherwise "`\"10 GiB\"`";
        /// Name of the volume to attach: lower-case letters, digits and `-`.
        "name" => name: Text, otherwise "required with `attach`";
        /// What to mount from the file server: `SERVER:/PATH`.
        "source" => source: Text, otherwise "required with `nfs`";
        /// Options for `mount`, with `nfs`.
        "options" => options: List<Text>;
        /// User quotas, for `home` with `manage`: `kiln quota` sets limits, and the control node's kernel enforces them on every node. The local cloud has none.
        "quota" => quota: At<bool>, otherwise "`false`";
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

pub(crate) struct Disk {
    pub at: Range<usize>,
    pub mode: VolumeMode,
    /// As written: a size for a volume that Kiln does not make is an error.
    pub written_size: Option<Text>,
    pub size: Text,
    pub name: Option<Text>,
    pub source: Option<Text>,
    pub options: Option<List<Text>>,
    pub quota: Option<At<bool>>,
}

const DEFAULT_SIZE: &str = "10 GiB";

pub(crate) fn merge(written: Option<Volume>, at: &Range<usize>) -> Disk {
    let Volume(table) = written.unwrap_or_default();
    let at = if table.at.is_empty() { at.clone() } else { table.at };
    Disk {
        mode: table.mode.map_or(VolumeMode::Manage, |mode| mode.value),
        size: table.size.clone().unwrap_or_else(|| default_text(DEFAULT_SIZE, &at)),
        written_size: table.size,
        name: table.name,
        source: table.source,
        options: table.options,
        quota: table.quota,
        at,
    }
}

/// That the volume and the cloud are ones for which there is File Storage.
pub(crate) fn check_file_storage(which: &str, disk: &Disk, facts: &CloudFacts, findings: &mut Findings<'_>) {
    if disk.mode != VolumeMode::FileStorage {
        return;
    }
    if which != "home" {
        let message = format!("the {which} volume cannot be on File Storage");
        (findings.error("bad-volume", disk.at.clone(), message))
            .expected("`manage`, `attach` or `none`")
            .hint("a database needs a disk; only the home directories can be on File Storage");
    } else if !facts.has_file_storage {
        let message = format!("there is no File Storage on a cloud of the kind `{}`", facts.kind);
        findings.error("bad-volume", disk.at.clone(), message).expected("`manage`, `attach` or `none`");
    }
}

/// Whether users have quotas there. A file system that Kiln has not made is the site's to change.
pub(crate) fn quota(which: &str, disk: &Disk, facts: &CloudFacts, findings: &mut Findings<'_>) -> bool {
    let Some(at) = disk.quota.as_ref().filter(|quota| quota.value) else { return false };
    if which != "home" || disk.mode != VolumeMode::Manage {
        let message = format!("the {which} volume cannot have quotas here");
        (findings.error("bad-volume", at.span.clone(), message))
            .expected("`quota` only for `home`, with mode = \"manage\"")
            .hint("a file server of the site has quotas of its own");
    } else if facts.shares_volumes {
        let message = format!("there are no quotas on a cloud of the kind `{}`", facts.kind);
        (findings.warning("no-quota", at.span.clone(), message))
            .expected("another cloud, or no `quota`")
            .hint("its volumes are directories of the host; all else works");
    }
    true
}

pub(crate) fn validate(which: &str, disk: &Disk, findings: &mut Findings<'_>) -> crate::Volume {
    if let Some(name) = disk.name.as_ref().filter(|_| disk.mode != VolumeMode::Attach) {
        (findings.error(
            "bad-volume",
            name.span.clone(),
            format!("the {which} volume has a name but is not attached"),
        ))
        .expected("no `name`")
        .hint("to use an existing volume, set mode = \"attach\"");
    }
    if let (Some(size), VolumeMode::FileStorage) = (&disk.written_size, disk.mode) {
        let message = format!("the {which} volume has a size but is on File Storage");
        (findings.error("bad-volume", size.span.clone(), message))
            .expected("no `size`")
            .hint("File Storage grows with what is in it");
    }
    if let (Some(size), VolumeMode::Attach | VolumeMode::Nfs | VolumeMode::None) =
        (&disk.written_size, disk.mode)
    {
        (findings.error(
            "bad-volume",
            size.span.clone(),
            format!("the {which} volume has a size but Kiln does not create it"),
        ))
        .expected("no `size`")
        .hint("to let Kiln create the volume, set mode = \"manage\"");
    }
    if let Some(source) = disk.source.as_ref().filter(|_| disk.mode != VolumeMode::Nfs) {
        let message = format!("the {which} volume has a `source` but is not on a file server");
        (findings.error("bad-volume", source.span.clone(), message))
            .expected("no `source`")
            .hint("for home directories on a file server, set mode = \"nfs\"");
    }
    if disk.mode == VolumeMode::Nfs && which != "home" {
        (findings.error(
            "bad-volume",
            disk.at.clone(),
            format!("the {which} volume cannot be on a file server"),
        ))
        .expected("mode = \"manage\", \"attach\" or \"none\"");
    }
    match disk.mode {
        // What is on a file server is among the site's mounts.
        VolumeMode::None | VolumeMode::Nfs => crate::Volume::None,
        VolumeMode::FileStorage => crate::Volume::FileStorage,
        VolumeMode::Manage => match size_gib(&disk.size.value) {
            Ok(size_gib) => crate::Volume::Manage { size_gib },
            Err(expected) => {
                let message = format!("`{}` is not the size of a volume", disk.size.value);
                findings.error("bad-size", disk.size.span.clone(), message).expected(expected);
                crate::Volume::None
            }
        },
        VolumeMode::Attach => {
            if let Some(name) = &disk.name {
                names::check_volume_name(name, findings);
            } else {
                let message = format!("the {which} volume has no `name`");
                (findings.error("missing-key", disk.at.clone(), message))
                    .expected("the name of the volume to attach: { mode = \"attach\", name = \"...\" }");
            }
            crate::Volume::Attach { name: disk.name.clone().unwrap_or_default().value }
        }
    }
}
