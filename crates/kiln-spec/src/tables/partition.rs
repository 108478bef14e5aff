//! `[partition.NAME]`: a Slurm partition for users' jobs.

use crate::written::table::table;
use crate::written::{At, List, Named, Scalar, Text};

table! {
    /// A Slurm partition for users' jobs.
    PartitionTable {
        /// Compute groups whose nodes belong to it.
        "groups" => groups: List<Text>, required;
        /// Whether jobs that name no partition go here (`Default=YES`). At most one partition may set it.
        "default" => default: At<bool>, otherwise "true for the first partition";
        /// Longest run time of a job in Slurm's format, e.g. `1-00:00:00` (`MaxTime`).
        "max_time" => max_time: Text, otherwise "`INFINITE`";
        /// Further parameters of the `PartitionName` line in slurm.conf. `PartitionName`, `Nodes`, `Default` and `MaxTime` are not allowed.
        "config" => config: Named<Scalar>, empty;
    }
}
