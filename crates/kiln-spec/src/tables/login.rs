//! `[login.NAME]`: a group of login nodes.

use super::{ComputeOverrideTable, ComputeTable};
use crate::ImageUpdate;
use crate::written::table::table;
use crate::written::{At, Named, Text};

table! {
    /// A group of equal login nodes.
    LoginTable {
        /// The nodes as a hostlist in lower case, e.g. `login-[0-1]`.
        "nodes" => nodes: Text, required;
        /// Size of the machines.
        "flavor" => flavor: Text, default "medium";
        /// Name of an image that has the role `login`.
        "image" => image: Text, otherwise "`default`, or the only image";
        /// Settings for some of the nodes, by node name or hostlist.
        "override" => overrides: Named<LoginOverrideTable>, empty;
    }
}

table! {
    /// Settings for some nodes of a login group.
    LoginOverrideTable {
        /// Size of the machine.
        "flavor" => flavor: Text, otherwise "that of the group";
        /// Name of an image.
        "image" => image: Text, otherwise "that of the group";
        /// Fixed IPv4 address inside the cloud's `subnet`, which must be set.
        "address" => address: Text, otherwise "Kiln or the cloud chooses one";
    }
}

/// A login group has no other keys than a compute group, which has all defaults in their place.
impl From<LoginTable> for ComputeTable {
    fn from(LoginTable { at, nodes, flavor, image, overrides }: LoginTable) -> Self {
        let overrides = overrides.into_iter().map(|(name, table)| (name, table.into())).collect();
        let image_update = At::new(ImageUpdate::Apply, at.clone());
        ComputeTable { at, nodes, flavor, image, image_update, overrides, ..ComputeTable::default() }
    }
}

impl From<LoginOverrideTable> for ComputeOverrideTable {
    fn from(LoginOverrideTable { at, flavor, image, address }: LoginOverrideTable) -> Self {
        ComputeOverrideTable { at, flavor, image, address, ..ComputeOverrideTable::default() }
    }
}
