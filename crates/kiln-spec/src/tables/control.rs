//! `[control]`: the control node.

use crate::written::Text;
use crate::written::table::table;

table! {
    /// The control node: slurmctld, slurmdbd and its database.
    ControlTable {
        /// Name of the node, and `SlurmctldHost`.
        "node" => node: Text, default "control";
        /// Size of the machine.
        "flavor" => flavor: Text, default "medium";
        /// Name of an image that has the role `control`.
        "image" => image: Text, otherwise "`default`, or the only image";
    }
}
