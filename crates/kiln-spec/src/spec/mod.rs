//! The validated content of `cluster.toml`: every default is filled in, every name is checked, every
//! hostlist is expanded. Nothing behind this type needs to ask whether the file was right.

mod accounts;
mod dashboard;
mod directory;
mod health;
mod images;
mod monitoring;
mod mounts;
mod nodes;
mod notify;
mod partitions;
mod reconcile;
mod roles;
mod slurm;
mod storage;
mod system;
mod time;
mod users;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::CloudSpec;

pub use accounts::*;
pub use dashboard::*;
pub use directory::*;
pub use health::*;
pub use images::*;
pub use monitoring::*;
pub use mounts::*;
pub use nodes::*;
pub use notify::*;
pub use partitions::*;
pub use reconcile::*;
pub use roles::*;
pub use slurm::*;
pub use storage::*;
pub use system::*;
pub use time::*;
pub use users::*;

/// One cluster, as the user described it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spec {
    pub name: String,
    /// DNS domain of the nodes; `NODE.DOMAIN` is a node's full name.
    pub domain: String,
    pub cloud: CloudSpec,
    /// By name. Every `image` of a node names one of these.
    pub images: BTreeMap<String, ImageSpec>,
    /// By name: the site's sets of software.
    pub software: BTreeMap<String, SoftwareSpec>,
    /// By name. Images name these.
    pub sources: BTreeMap<String, SourceSpec>,
    pub pulp: Option<PulpSpec>,
    pub control: ControlSpec,
    /// In the order of the file.
    pub login: Vec<Group>,
    /// In the order of the file.
    pub compute: Vec<Group>,
    pub volumes: Volumes,
    pub backup: Backup,
    /// `None`: slurmdbd and its database run on the control node.
    pub accounting: Option<ExternalSlurmdbd>,
    pub accounts: Accounts,
    /// `None`: nothing is monitored.
    pub monitoring: Option<Monitoring>,
    pub partitions: Vec<Partition>,
    pub rebuild: Vec<RebuildPartition>,
    pub slurm: SlurmSpec,
    pub users: Vec<User>,
    /// Every group that the file names, but those of its system and the own groups of users.
    pub user_groups: Vec<UserGroup>,
    /// Where further users come from.
    pub directory: Option<Directory>,
    pub roles: Roles,
    /// At most this many cloud or SSH operations at a time.
    pub concurrency: usize,
    pub health: Health,
    /// `/home` first, if it is one of them.
    pub mounts: Vec<SiteMount>,
    /// `None`: the dashboard is reached over SSH alone.
    pub dashboard: Option<Dashboard>,
    /// `None`: nobody is told of anything.
    pub notify: Option<Notify>,
    pub reconcile: Reconcile,
    pub system: SystemSettings,
    pub time: TimeSettings,
}

impl Spec {
    /// Every node of the cluster: control, then login, then compute, in the order of the file.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let control = Node {
            name: &self.control.node,
            role: Role::Control,
            group: "control",
            flavor: &self.control.flavor,
            image: &self.control.image,
            features: &[],
            image_update: ImageUpdate::Apply,
            address: None,
            zone: None,
            elastic: false,
        };
        std::iter::once(control).chain(self.login.iter().chain(&self.compute).flat_map(Group::members))
    }

    pub fn node(&self, name: &str) -> Option<Node<'_>> {
        self.nodes().find(|n| n.name == name)
    }

    pub fn compute_group(&self, name: &str) -> Option<&Group> {
        self.compute.iter().find(|g| g.name == name)
    }
}
