//! What Slurm's health check looks at on compute nodes.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Between two checks of a node.
    pub every: Duration,
    pub off: Vec<HealthPart>,
    /// The site's own, each a line for `sh`: what does not end with 0 drains the node.
    pub commands: Vec<String>,
}

impl Health {
    pub fn looks_at(&self, part: HealthPart) -> bool {
        !self.off.contains(&part)
    }
}

/// A part of the health check that can be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthPart {
    /// The last bundle was applied whole.
    Bundle,
    Clock,
    Gpus,
    /// File systems are mounted and answer.
    Mounts,
    /// Daemons run and answer.
    Services,
    /// As many CPUs and as much memory as slurm.conf says.
    Size,
    /// Local file systems have room and can be written to.
    Space,
}
