//! Sizes. They are names with numbers, so that the same cluster file works on every cloud; the host's cores
//! and memory are shared by all instances and not divided.

use crate::{Error, Flavor, Result};

const ALL: [(&str, u32, u64); 5] =
    [("tiny", 1, 512), ("small", 1, 2048), ("medium", 2, 4096), ("large", 4, 8192), ("xlarge", 8, 16384)];

pub fn all() -> Vec<Flavor> {
    let flavor = |(name, cpus, memory_mib): (&str, u32, u64)| Flavor {
        name: name.into(),
        cpus,
        memory_mib,
        features: Vec::new(),
        topology: None,
        gpus: None,
    };
    ALL.map(flavor).to_vec()
}

pub fn check(name: &str) -> Result<()> {
    if ALL.iter().any(|(n, ..)| *n == name) {
        return Ok(());
    }
    let known: Vec<_> = ALL.iter().map(|(n, ..)| *n).collect();
    Err(Error::refused(format!("there is no flavor {name}; there are {}", known.join(", "))))
}
