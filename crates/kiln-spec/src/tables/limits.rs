//! `[limits.FLAVOR]`: how many machines of a flavor may be used where.

use crate::written::table::table;
use crate::written::{At, List, Named, Text};

table! {
    /// How many machines of one flavor may be used in which availability zone.
    LimitTable {
        /// Number of machines by availability zone, 0 to 9999, e.g. `{ ad1 = 16, ad2 = 4 }`. Each zone with at least one becomes an elastic group `FLAVOR-ZONE`.
        "zones" => zones: Named<At<i64>>, required;
        /// Name of an image that has the role `compute`.
        "image" => image: Text, otherwise "`default`, or the only image";
        /// A node that has been idle for this long is deleted.
        "idle" => idle: Text, default "15m";
        /// Slurm features of the nodes, in addition to `shape=`, `zone=` and `arch=`.
        "features" => features: List<Text>, empty;
    }
}
