//! `[rebuild.NAME]`: a hidden partition through which nodes are rebuilt.

use crate::written::table::table;
use crate::written::{List, Text};

table! {
    /// A hidden partition, for root only, through which nodes are rebuilt.
    RebuildTable {
        /// Compute groups whose nodes are rebuilt through it. It must contain all groups of a users' partition or none of them, and a group cannot be in two rebuild partitions.
        "groups" => groups: List<Text>, required;
        /// Longest time that the rebuild of one node may take, one minute or more, e.g. `1h30m`.
        "max_time" => max_time: Text, default "30m";
    }
}
