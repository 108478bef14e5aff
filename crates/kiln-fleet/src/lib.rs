//! The control node's side of Kiln: Slurm's hooks, the daemon that answers them, and rollouts.
//!
//! A hook only writes into the [`Store`] and returns. The [`daemon`] reads the store, looks at the cloud and at
//! Slurm, and does the slow work. Everything here runs as Slurm's own user.

mod cloud_view;
mod crew;
pub mod daemon;
mod engine;
pub mod ensure;
mod error;
mod execute;
mod fleet_file;
pub mod health;
pub mod hook;
mod power;
pub mod reconcile;
mod resume_file;
mod rollout;
mod rounds;
mod slurm;
mod spool;
mod start;
pub mod store;
mod trouble;
mod wait;
mod work;

pub use daemon::{DaemonConfig, run};
pub use error::{Error, Result};
pub use fleet_file::{ElasticGroup, Fleet, FleetFile, FleetNode, Patience, Place, Surroundings};
pub use health::{FleetHealth, NodeDossier, NodeHealth, Sources};
pub use rollout::{
    NodeStep, Options, Rollout, RolloutId, RolloutNode, RolloutReport, RolloutState, Strategy, estimate,
    step_text,
};
pub use slurm::{Job, JobState, Node, Slurm};
pub use start::{WELL_AS_IT_IS, abort, list, pause, report, resume, start};
pub use store::Store;
