//! Partitions, those of jobs and those of rebuild jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Partition {
    pub name: String,
    /// Names of compute groups.
    pub groups: Vec<String>,
    pub default: bool,
    /// In slurm.conf's format, e.g. `1-00:00:00`.
    pub max_time: Option<String>,
    /// The QOS whose limits hold for all its jobs together with their own.
    pub qos: Option<String>,
    /// `None`: all.
    pub allow_accounts: Option<Vec<String>>,
    /// `None`: all.
    pub allow_qos: Option<Vec<String>>,
    /// Extra parameters of the `PartitionName` line, in slurm.conf's own words.
    pub config: BTreeMap<String, String>,
}

impl Partition {
    /// The tier that the file gives it: jobs of a higher one go first, whatever their priority. `Priority` sets it too.
    pub fn priority_tier(&self) -> Option<u64> {
        let value = |name: &str| self.config.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        value("Priority").or_else(|| value("PriorityTier")).and_then(|(_, tier)| tier.parse().ok())
    }

    /// What the file gives its jobs towards their priority. `Priority` sets it too.
    pub fn priority_factor(&self) -> Option<u64> {
        let value = |name: &str| self.config.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        value("Priority").or_else(|| value("PriorityJobFactor")).and_then(|(_, factor)| factor.parse().ok())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RebuildPartition {
    pub name: String,
    pub groups: Vec<String>,
    pub max_time: Duration,
}
