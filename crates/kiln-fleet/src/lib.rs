//! The control node's side of Kiln: Slurm's hooks, the daemon that answers them, and rollouts.
//!
//! A hook only leaves a file in a spool and returns. It runs as Slurm's own user, all else as kilnd's, which alone reads the
//! [`Store`] and the fleet file. The [`daemon`] runs one controller per concern: [`reboot`], [`power`],
//! [`rollout`] and [`reconcile`]. Each has the same three parts: `observe` reads the store, Slurm and the cloud; `plan`
//! decides and does nothing else; `execute` acts and records. [`control_loop`] runs them. [`notify`] tells people what matters.

mod cloud_view;
mod control_loop;
pub mod daemon;
mod error;
mod fleet;
mod group_pause;
pub mod health;
pub mod hooks;
pub mod notify;
mod power;
mod reach;
mod reboot;
pub mod reconcile;
mod rollout;
pub mod store;
mod usage;
pub mod window;

pub use daemon::{DaemonConfig, run};
pub use error::{Error, Result};
pub use fleet::Fleet;
pub use health::{Sources, known_instances};
pub use reach::reach;
pub use rollout::{abort, list, pause, report, resume, start};
pub use store::Store;
