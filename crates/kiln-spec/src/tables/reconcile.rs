//! `[reconcile]`: how often and how soon kilnd corrects differences between Slurm and the cloud.

use crate::written::table::table;
use crate::written::{At, Text};

table! {
    /// How often and how soon kilnd corrects differences between Slurm and the cloud.
    ReconcileTable {
        /// Time between two readings of Slurm and the cloud.
        "every" => every: Text, default "30s";
        /// How long a difference must last before kilnd acts on it.
        "grace" => grace: Text, default "2m";
        /// How long an instance that belongs to no node may exist if it is younger than the last `kiln configure`. It may belong to a node that the next `kiln configure` adds.
        "newcomer" => newcomer: Text, default "1h";
        /// How long an elastic group pauses after the cloud refused it, or after repeated failures.
        "pause" => pause: Text, default "10m";
        /// Number of consecutive failures after which an elastic group pauses, 1 to 100.
        "failures" => failures: At<i64>, default 5;
    }
}
