//! `[slurm]`: Slurm's own configuration.

use crate::ConfigValue;
use crate::written::table::table;
use crate::written::{At, Named};

table! {
    /// Slurm's own configuration.
    SlurmTable {
        /// Parameters of slurm.conf. They replace Kiln's own; `false` removes Kiln's line.
        "config" => config: Named<At<ConfigValue>>, empty;
    }
}
