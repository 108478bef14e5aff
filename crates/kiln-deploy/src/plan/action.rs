//! The actions of a plan. Each holds every value that its execution needs, except secrets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::Ipv4Net;
use kiln_cloud::{AddressRange, NetworkPart, Peers, Rule, VolumeStatus};
use kiln_ssh::Host;
use kiln_wire::bundle::MountSource;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::reference::Ref;
use super::upgrade::ControlUpgrade;
use crate::owner::Unmarked;
use crate::slurm_view::JobOnNodes;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Not carried out by `apply`: the image must be there before it starts.
    BuildImage { image: String },
    CreateNetwork {
        name: String,
        /// `None`: the cloud picks a free one.
        cidr: Option<Ipv4Net>,
        /// What one that exists already lacks.
        #[serde(skip_serializing_if = "Option::is_none")]
        lacks: Option<NetworkPart>,
        /// The only range from which the cloud assigns addresses by itself.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        automatic: Vec<AddressRange>,
    },
    /// Restricts the range from which the cloud assigns addresses by itself: the others are reserved for elastic nodes.
    KeepAddresses { network: String, id: String, automatic: Vec<AddressRange> },
    CreateSecurityGroup {
        name: String,
        login: bool,
        /// It exists already, but lacks some of these rules, or has some that are to go.
        #[serde(skip_serializing_if = "is_false")]
        unfinished: bool,
        rules: Vec<PlannedRule>,
        /// Those that are to go.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        closed: Vec<Rule>,
    },
    CreateVolume {
        name: String,
        size_gib: u64,
        /// The state of one that exists already but cannot be used.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<VolumeStatus>,
    },
    /// One that the cloud serves over NFS.
    CreateFileSystem {
        name: String,
        /// It exists already, but cannot be used yet.
        #[serde(skip_serializing_if = "is_false")]
        there: bool,
    },
    /// Lets the nodes mount the file systems that the cloud serves.
    ExportFileSystems {
        network: Ref<String>,
        security_groups: Vec<Ref<String>>,
        subnet: Ref<Ipv4Net>,
        /// The control node, whose root is root there.
        control: Ref<IpAddr>,
        file_systems: Vec<PlannedExport>,
    },
    /// Nodes that have it grow its file system when they are configured.
    GrowVolume { name: String, id: String, from_gib: u64, size_gib: u64 },
    /// Resources of an earlier release get the cluster's id.
    Adopt { resources: Vec<Unmarked> },
    /// Notes where the control node is, so that a new one gets the same address.
    NoteControl { volume: String, address: IpAddr },
    /// One per group, because clouds create instances in bulk.
    CreateInstances {
        group: String,
        image: String,
        #[serde(flatten)]
        instances: Instances<NewNode>,
    },
    RebuildInstances {
        group: String,
        from: String,
        to: String,
        #[serde(flatten)]
        instances: Instances<RebuiltNode>,
    },
    /// The control node gets another release of Slurm.
    UpgradeControl(Box<ControlUpgrade>),
    /// Records the image that Slurm is to move these nodes to.
    LeaveToSlurm {
        group: String,
        image: String,
        image_id: Ref<String>,
        /// They have this image already.
        #[serde(skip_serializing_if = "is_false")]
        there: bool,
        #[serde(flatten)]
        instances: Instances<ExistingNode>,
    },
    StartInstances {
        group: String,
        #[serde(flatten)]
        instances: Instances<ExistingNode>,
    },
    /// Taken out of service through Slurm. The plan after that deletes those without jobs; it recreates those that the file
    /// still has.
    DrainInstances {
        group: String,
        reason: String,
        #[serde(flatten)]
        instances: Instances<HeldNode>,
    },
    /// Slurm powers them down when their jobs have ended, and up again as the file says.
    PowerDownInstances {
        group: String,
        reason: String,
        /// At once, with their jobs.
        #[serde(skip_serializing_if = "is_false")]
        now: bool,
        /// Those that end with them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        jobs: Vec<JobOnNodes>,
        #[serde(flatten)]
        instances: Instances<ExistingNode>,
    },
    /// Instances of nodes that are no longer in the file, and those that the same plan recreates: broken ones, and ones of
    /// another flavor.
    DeleteInstances {
        group: String,
        reason: String,
        /// Those that end with them, where Slurm was asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        jobs: Option<Vec<JobOnNodes>>,
        #[serde(flatten)]
        instances: Instances<ExistingNode>,
    },
}

/// When an action is carried out. Stages follow one another; actions of one stage do not depend on one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Images,
    /// Before the others: the rest of the plan depends on what has ended by then.
    Drain,
    Remove,
    /// The network and the volumes.
    Network,
    /// Security groups, whose rules name the network's subnet.
    Firewall,
    /// The control node, whose address the other nodes are told.
    Control,
    /// What the cloud serves, to the control node's address before all others.
    Exports,
    /// New nodes, and those that are started.
    Nodes,
    /// Another Slurm on the control node. What fails here leaves the other nodes as they are.
    Upgrade,
    /// Other images.
    Rebuild,
}

impl Stage {
    pub const ALL: [Stage; 10] = [
        Stage::Images,
        Stage::Drain,
        Stage::Remove,
        Stage::Network,
        Stage::Firewall,
        Stage::Control,
        Stage::Exports,
        Stage::Nodes,
        Stage::Upgrade,
        Stage::Rebuild,
    ];
}

impl Action {
    pub fn stage(&self) -> Stage {
        match self {
            Action::BuildImage { .. } => Stage::Images,
            Action::DrainInstances { .. } | Action::PowerDownInstances { .. } => Stage::Drain,
            Action::DeleteInstances { .. } => Stage::Remove,
            Action::CreateNetwork { .. }
            | Action::KeepAddresses { .. }
            | Action::CreateVolume { .. }
            | Action::CreateFileSystem { .. }
            | Action::GrowVolume { .. }
            | Action::Adopt { .. }
            | Action::NoteControl { .. } => Stage::Network,
            Action::CreateSecurityGroup { .. } => Stage::Firewall,
            Action::CreateInstances { group, .. } if group == "control" => Stage::Control,
            Action::ExportFileSystems { .. } => Stage::Exports,
            Action::CreateInstances { .. } | Action::StartInstances { .. } => Stage::Nodes,
            Action::UpgradeControl(_) => Stage::Upgrade,
            Action::RebuildInstances { .. } | Action::LeaveToSlurm { .. } => Stage::Rebuild,
        }
    }

    /// Whether it takes away something that exists now.
    pub fn is_destructive(&self) -> bool {
        use Action::{DeleteInstances, RebuildInstances, UpgradeControl};
        matches!(self, RebuildInstances { .. } | DeleteInstances { .. } | UpgradeControl(_))
            || self.stage() == Stage::Drain
            || self.deleted_volume().is_some()
    }

    /// The volume that it deletes, to create it again.
    pub fn deleted_volume(&self) -> Option<&str> {
        match self {
            Action::CreateVolume { name, status: Some(VolumeStatus::Error), .. } => Some(name),
            _ => None,
        }
    }
}

/// Lets traffic in, as [`kiln_cloud::Rule`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PlannedRule {
    pub from: Ref<Peers>,
    pub tcp_port: Option<u16>,
}

/// Everything that a node's instance is created with, except its user data, which is secret.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NewNode {
    pub node: String,
    pub image_id: Ref<String>,
    pub flavor: String,
    pub zone: Option<String>,
    pub network: Ref<String>,
    pub address: Option<IpAddr>,
    pub public: bool,
    pub security_groups: Vec<Ref<String>>,
    pub volumes: Vec<PlannedAttachment>,
    /// The volume on which its address is noted, for its successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeps_address: Option<Ref<String>>,
    pub labels: PlannedLabels,
    /// Where the node finds the share, if it is told.
    pub share: Option<Ref<MountSource>>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PlannedAttachment {
    pub volume: Ref<String>,
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PlannedExport {
    pub name: String,
    pub id: Ref<String>,
    /// For all but the control node.
    pub read_only: bool,
}

pub type PlannedLabels = BTreeMap<String, Ref<String>>;

/// An instance that gets a new root disk, and what it gets with it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RebuiltNode {
    pub node: String,
    pub id: String,
    pub image_id: Ref<String>,
    pub labels: PlannedLabels,
    pub share: Option<Ref<MountSource>>,
    /// Where Slurm's daemons are stopped first, so that they can write down their state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_daemons: Option<Host>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ExistingNode {
    pub node: String,
    pub id: String,
}

/// An instance that goes when its jobs have ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HeldNode {
    pub node: String,
    pub id: String,
    /// Those that are there now.
    pub jobs: Vec<JobOnNodes>,
    /// Why Slurm could not be asked. The node is then left as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// The instances of one action. JSON shows the names of their nodes once more, as a plain list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instances<T>(pub Vec<T>);

pub trait OfNode {
    fn node(&self) -> &str;
}

impl OfNode for NewNode {
    fn node(&self) -> &str {
        &self.node
    }
}

impl OfNode for RebuiltNode {
    fn node(&self) -> &str {
        &self.node
    }
}

impl OfNode for HeldNode {
    fn node(&self) -> &str {
        &self.node
    }
}

impl OfNode for ExistingNode {
    fn node(&self) -> &str {
        &self.node
    }
}

impl<T: OfNode> Instances<T> {
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(OfNode::node)
    }
}

impl<T: OfNode + Serialize> Serialize for Instances<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Instances", 2)?;
        fields.serialize_field("nodes", &self.nodes().collect::<Vec<_>>())?;
        fields.serialize_field("instances", &self.0)?;
        fields.end()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(value: &bool) -> bool {
    !value
}
