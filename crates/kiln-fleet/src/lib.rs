//! The control node's side of Kiln: Slurm's hooks, the daemon that answers them, and rollouts.
//!
//! A hook only writes into the [`Store`] and returns. The [`daemon`] reads the store, looks at the cloud and at
//! Slurm, and does the slow work. Everything here runs as Slurm's own user.

mod cloud_view;
mod control_loop;
pub mod daemon;
mod error;
mod fleet_file;
mod group_pause;
pub mod health;
pub mod hooks;
mod power;
pub mod reboot;
pub mod reconcile;
mod rollout;
pub mod store;

pub use daemon::{DaemonConfig, run};
pub use error::{Error, Result};
pub use fleet_file::{ElasticGroup, Fleet, FleetFile, FleetNode, Patience, Place, Surroundings};
pub use health::{FleetHealth, NodeDossier, NodeHealth, Sources};
pub use rollout::{
    NodeStep, Options, Rollout, RolloutId, RolloutNode, RolloutReport, RolloutState, Strategy, WELL_AS_IT_IS,
    abort, estimate, list, pause, report, resume, start, step_text,
};
pub use store::Store;

/// Where things are on the control node.
pub mod paths {
    pub const STORE: &str = "/var/lib/state/kiln/store.db";
    /// On the root disk, not beside the store: it is for when the store cannot be written, and most of what is
    /// wrong with it then (the volume full, read-only, not there) would be wrong here too. A file written below
    /// the mount point of a missing volume would even vanish when the volume comes. What is lost with a rebuild of
    /// control is little: the daemon empties it as soon as the store answers, and Slurm's own state is on the
    /// same volume as the store, so that without it nobody calls a hook for long.
    pub const SPOOL: &str = "/var/spool/kiln";
    pub const FLEET: &str = "/etc/kiln/fleet.json";
    pub const SHARE: &str = "/srv/kiln/share";
}
