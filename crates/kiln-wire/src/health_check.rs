//! What Slurm's health check looks at on a compute node: written by its bundle, read at every check.

use serde::{Deserialize, Serialize};

use crate::checkup::ServiceCheck;
use crate::format::{Format, Version};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    #[serde(default)]
    pub format: Version<1>,
    /// What slurm.conf promises of the node; `None`: its size is not looked at.
    pub size: Option<Size>,
    /// At least so many must be there.
    pub gpus: u32,
    pub services: Vec<ServiceCheck>,
    pub mounts: Vec<MountCheck>,
    /// Directories whose file systems must have room, and take a new file.
    pub places: Vec<String>,
    /// Whether the node keeps its own clock, and it is to be right.
    pub clock: bool,
    /// Whether the last bundle is to have been applied whole.
    pub bundle: bool,
    /// The site's own, each for `sh`.
    pub commands: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub cpus: u32,
    pub memory_mib: u64,
}

/// A file system that must be mounted and answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountCheck {
    pub path: String,
    pub writable: bool,
}

impl Format for HealthCheck {
    const NAME: &'static str = "list of what a health check looks at";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let check = HealthCheck {
            size: Some(Size { cpus: 2, memory_mib: 1900 }),
            mounts: vec![MountCheck { path: "/home".into(), writable: true }],
            commands: vec!["true".into()],
            ..HealthCheck::default()
        };
        assert_eq!(HealthCheck::from_json(&check.to_json().unwrap()), Ok(check));
    }
}
