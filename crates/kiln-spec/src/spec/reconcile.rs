//! How kilnd keeps Slurm and the cloud in agreement.

use std::time::Duration;

use serde::Serialize;

/// How kilnd keeps Slurm and the cloud in agreement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reconcile {
    /// Between two looks.
    pub every: Duration,
    /// How long an odd state must have lasted.
    pub grace: Duration,
    /// How long an instance that belongs to no node is kept, in case the next `kiln configure` adds its node.
    pub newcomer: Duration,
    /// How long an elastic group is left alone after the cloud refused it.
    pub pause: Duration,
    /// Failures in a row that make a group pause.
    pub failures: u32,
}
