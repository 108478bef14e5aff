//! Slurm's health check of a compute node: what is wrong with it, told to Slurm as the reason of a drain, which ends with it.

mod checks;
mod clock;
mod slurm;

use std::path::Path;
use std::time::Duration;

use kiln_wire::health_check::HealthCheck;
use kiln_wire::{Format as _, paths};

pub use checks::problems;

/// A service that is being restarted is back by then.
const SECOND_LOOK: Duration = Duration::from_secs(3);

/// What this node's bundle says is to be looked at; `None`: the node has no health check.
pub fn asked() -> Option<HealthCheck> {
    HealthCheck::from_json(&std::fs::read(paths::HEALTH_CHECK).ok()?).ok()
}

/// As slurmd runs it, with a minute to end. Only what is wrong at two looks drains the node.
pub fn run() {
    let Some(asked) = asked() else { return };
    let mut found = problems(&asked);
    if !found.is_empty() {
        std::thread::sleep(SECOND_LOOK);
        found = problems(&asked);
    }
    let healthy = Path::new(paths::HEALTHY);
    if found.is_empty() && healthy.exists() {
        return;
    }
    let _ = std::fs::remove_file(healthy);
    match slurm::tell(&found) {
        // As long as Slurm has any drain for the node, it is asked again.
        Ok(is_drained) if found.is_empty() && !is_drained => {
            let _ = std::fs::write(healthy, "");
        }
        Ok(_) => {}
        Err(error) => crate::boot::say(&format!("the health check could not tell Slurm: {error}")),
    }
}
