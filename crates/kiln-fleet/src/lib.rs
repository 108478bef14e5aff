//! The control node's side of Kiln: Slurm's hooks, the daemon that answers them, and rollouts.
//!
//! A hook only writes into the [`Store`] and returns. The [`daemon`] reads the store, looks at the cloud and at
//! Slurm, and does the slow work. Everything here runs as Slurm's own user.

mod cloud_view;
pub mod daemon;
mod engine;
pub mod ensure;
mod error;
mod execute;
mod fleet_file;
pub mod hook;
mod rollout;
mod slurm;
mod spool;
mod start;
pub mod store;
mod work;

pub use daemon::{DaemonConfig, run};
pub use error::{Error, Result};
pub use fleet_file::{FleetFile, FleetNode};
pub use rollout::{
    NodeStep, Options, Rollout, RolloutId, RolloutNode, RolloutReport, RolloutState, Strategy, step_text,
};
pub use slurm::{Job, JobState, Node, Slurm};
pub use start::{abort, list, pause, report, resume, start};
pub use store::Store;

/// Where things are on the control node.
pub mod paths {
    pub const STORE: &str = "/var/lib/state/kiln/store.db";
    pub const SPOOL: &str = "/var/lib/state/kiln/spool";
    pub const FLEET: &str = "/etc/kiln/fleet.json";
}
