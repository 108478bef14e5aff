//! Everything that travels between hosts: one file per format, with its writer and its reader side by side.
//!
//! The deploy host, the control node and the other nodes may run different releases of Kiln for a while, so that
//! what is here is changed with care.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backup;
pub mod bundle;
pub mod bundle_tag;
pub mod certificate;
pub mod checkup;
mod cloud_access;
pub mod dashboard;
mod dashboard_settings;
pub mod directory;
mod event;
mod fleet_file;
mod format;
pub mod health;
pub mod health_check;
pub mod identity;
mod known_instances;
pub mod labels;
pub mod make;
pub mod node_names;
pub mod notify;
pub mod paths;
pub mod publication;
pub mod quota;
mod reached;
pub mod report;
pub mod rollout;
pub mod seal;
mod secret_text;

pub use backup::{BackupList, BackupManifest, BackupSettings};
pub use bundle::{Bundle, Resource};
pub use cloud_access::{CloudAccess, CloudAccessError};
pub use dashboard_settings::{DashboardSettings, OidcSettings, Proxy};
pub use event::{Event, EventList};
pub use fleet_file::{
    Attachment, ElasticGroup, FleetFile, FleetFileError, FleetMonitoring, FleetNode, InstanceDefaults,
    LaunchOption, Timing, WatchedNode,
};
pub use format::{Format, ReadError, Version};
pub use identity::{Identity, UserData};
pub use known_instances::KnownInstances;
pub use node_names::NodeNames;
pub use publication::{Publication, ShareError, bundles, publish, published};
pub use reached::CloudReached;
pub use report::{Applied, AppliedResult, ApplyReport, Outcome, ResourceReport};
pub use seal::{Opened, SealError, seal, seal_keypair};
pub use secret_text::SecretText;
