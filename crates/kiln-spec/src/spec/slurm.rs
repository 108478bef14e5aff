//! Parameters of Slurm.

use std::collections::BTreeMap;

use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SlurmSpec {
    /// Parameters for slurm.conf that are set over Kiln's own.
    pub config: BTreeMap<String, ConfigValue>,
    /// Parameters for slurmdbd.conf beside Kiln's own.
    pub slurmdbd_config: BTreeMap<String, String>,
    /// slurmrestd runs on the control node.
    pub rest: bool,
}

impl SlurmSpec {
    /// Whether jobs may be ended, suspended or requeued for others.
    pub fn preempts(&self) -> bool {
        let set = self.config.iter().find(|(key, _)| key.eq_ignore_ascii_case("PreemptType"));
        matches!(set, Some((_, ConfigValue::Set(kind))) if !kind.eq_ignore_ascii_case("preempt/none"))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ConfigValue {
    Set(String),
    /// Joined with commas.
    List(Vec<String>),
    /// `false` in the file: Kiln's own line is left out.
    Removed,
}
