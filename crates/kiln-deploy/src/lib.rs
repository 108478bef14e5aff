//! The deploy host's side: what `kiln` does on a laptop or a CI runner to create a cluster, change it, inspect it and
//! delete it.

mod addresses;
mod apply;
mod bundles;
mod checkup;
mod configure;
mod control;
mod cores;
mod deployment;
mod destroy;
mod doctor;
mod error;
mod health;
mod inventory;
mod keys;
mod leaving;
mod nodes;
mod observe;
mod owner;
mod plan;
mod removal;
mod rollout;
mod secrets;
mod slurm_view;
mod status;
mod targets;
mod unlisted;
mod upgrade;
mod user_data;
mod wait;

pub use configure::Configured;
pub use deployment::Deployment;
pub use destroy::ClusterResources;
pub use doctor::{Diagnosis, Finding, Severity};
pub use error::{Error, Result};
pub use inventory::{HostEntry, InventoryReport};
pub use nodes::ExecOutcome;
pub use observe::Observed;
pub use plan::{Action, HeldNode, Plan, Removal, Stage};
pub use removal::why_held;
pub use rollout::Rollouts;
pub use secrets::SecretStore;
pub use slurm_view::JobOnNodes;
pub use status::{NodeStatus, StatusReport};
pub use upgrade::{Begin, Outlook, QueuedJob, Upgraded, WayBack};
