//! `[login.NAME]`: a group of login nodes.

use crate::written::table::table;
use crate::written::{Named, Text};

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
