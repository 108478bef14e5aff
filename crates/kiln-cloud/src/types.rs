//! The words every cloud shares.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub type Labels = BTreeMap<String, String>;

use kiln_wire::{Attachment, SecretText, labels};

use crate::Gpus;

/// What carries labels and belongs to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Instance,
    Volume,
    Network,
    SecurityGroup,
    /// Its labels are properties.
    Image,
}

impl Kind {
    /// As people say it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Instance => "instance",
            Kind::Volume => "volume",
            Kind::Network => "network",
            Kind::SecurityGroup => "security group",
            Kind::Image => "image",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub id: String,
    pub name: String,
    pub status: InstanceStatus,
    /// Id of the image it runs.
    pub image: Option<String>,
    pub flavor: String,
    pub address: Option<IpAddr>,
    /// Where it is reached from outside its network, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_address: Option<IpAddr>,
    pub labels: Labels,
    /// Ids of attached volumes.
    pub volumes: Vec<String>,
    pub created: jiff::Timestamp,
    /// When the present root file system was first booted.
    pub built: Option<jiff::Timestamp>,
}

impl Instance {
    /// The address to connect to.
    pub fn reach(&self) -> Option<IpAddr> {
        self.public_address.or(self.address)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum InstanceStatus {
    Building,
    Rebuilding,
    Active,
    Stopped,
    /// Somebody has set it aside, in the cloud's word for it: paused, suspended, shelved, rescue. It is not Kiln's to end that.
    Held {
        how: String,
    },
    Deleting,
    /// With the cloud's own words.
    Error {
        reason: String,
    },
}

impl InstanceStatus {
    /// As people say it.
    pub fn word(&self) -> &str {
        match self {
            InstanceStatus::Building => "building",
            InstanceStatus::Rebuilding => "rebuilding",
            InstanceStatus::Active => "active",
            InstanceStatus::Stopped => "stopped",
            InstanceStatus::Held { how } => how,
            InstanceStatus::Deleting => "deleting",
            InstanceStatus::Error { .. } => "error",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewInstance {
    pub name: String,
    /// Image id.
    pub image: String,
    pub flavor: String,
    /// Availability zone; `None`: the cloud decides.
    #[serde(default)]
    pub zone: Option<String>,
    /// Network id.
    pub network: String,
    /// A fixed address, if one is wanted.
    pub address: Option<IpAddr>,
    /// To be reached from outside its network, where the cloud has addresses for that.
    #[serde(default)]
    pub public: bool,
    /// Security group ids.
    pub security_groups: Vec<String>,
    pub user_data: SecretText,
    /// OpenSSH public key for root.
    pub ssh_key: String,
    pub labels: Labels,
    pub volumes: Vec<Attachment>,
    /// Size of a root disk that is a volume, where the cloud has such; `None`: as the cloud's settings say.
    #[serde(default)]
    pub disk_gib: Option<u64>,
    /// A name for this launch, by whoever may have to ask for it again without knowing whether the cloud heard it before:
    /// the same name is the same instance, also from another process, where the cloud can tell. `None`: nobody will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rebuild {
    /// Image id.
    pub image: String,
    pub user_data: SecretText,
    /// OpenSSH public key for root.
    pub ssh_key: String,
    /// Replace the instance's labels.
    pub labels: Labels,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub id: String,
    pub name: String,
    pub labels: Labels,
    /// Facts about the image: recipe digest, source, build time. Values of any length.
    pub properties: BTreeMap<String, String>,
    pub size_bytes: u64,
    pub created: jiff::Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewImage {
    pub name: String,
    pub labels: Labels,
    pub properties: BTreeMap<String, String>,
}

/// An image of the local cloud, as root of its host has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// The bottom one first. Each is kept for as long as an image or an instance has it.
    pub directories: Vec<PathBuf>,
    /// A directory for work on them, on the same file system. It may have to be made.
    pub scratch: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub id: String,
    pub name: String,
    pub size_gib: u64,
    pub labels: Labels,
    /// Ids of instances it is attached to.
    pub attached_to: Vec<String>,
    #[serde(default)]
    pub status: VolumeStatus,
    /// A file system that the cloud serves over NFS; `None`: a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
}

/// How a file system of the cloud's own is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// `ADDRESS:/PATH`; `None`: it is not exported yet.
    pub at: Option<String>,
    /// The node whose root is root there, too.
    pub root: Option<IpAddr>,
}

impl Volume {
    /// Whether it certainly holds no data: Kiln created it, and no instance ever had it.
    pub fn never_used(&self) -> bool {
        self.attached_to.is_empty() && is_unused(&self.labels)
    }
}

/// Whether the labels of a volume say that no instance ever had it.
pub(crate) fn is_unused(labels: &Labels) -> bool {
    labels.get(labels::USED).is_some_and(|used| used == labels::USED_NO)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeStatus {
    #[default]
    Usable,
    Building,
    /// The cloud could not create it, or lost it later. It may still hold data: see [`Volume::never_used`].
    Error,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewVolume {
    pub name: String,
    pub size_gib: u64,
    pub labels: Labels,
}

/// File systems of the cloud's own that the nodes of a cluster are to mount.
#[derive(Debug, Clone)]
pub struct NewExports {
    /// Of the server that the cloud makes for them.
    pub name: String,
    pub labels: Labels,
    /// Network id.
    pub network: String,
    /// Security group ids.
    pub security_groups: Vec<String>,
    /// The only node that writes to all of them, and whose root is root there.
    pub root: IpAddr,
    /// Who else may mount them.
    pub subnet: ipnet::Ipv4Net,
    pub file_systems: Vec<NewExport>,
}

#[derive(Debug, Clone)]
pub struct NewExport {
    /// Of the file system.
    pub id: String,
    pub name: String,
    /// For all but the one node.
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub id: String,
    pub name: String,
    /// Its subnet; of one that lacks it, the one it is to get.
    pub cidr: ipnet::Ipv4Net,
    pub labels: Labels,
    /// What is still to be made, after a run that was cut off. [`crate::Cloud::create_network`] goes on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<NetworkPart>,
    /// Where instances of this network reach the cloud's API, if the cloud has a place of its own for it.
    pub api_url: Option<String>,
    /// Where the cloud takes addresses from that nobody asked for. Empty: it does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub automatic: Vec<AddressRange>,
}

/// From the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRange {
    pub first: Ipv4Addr,
    pub last: Ipv4Addr,
}

impl AddressRange {
    pub fn contains(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if self.first <= address && address <= self.last)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkPart {
    Subnet,
    Router,
}

impl NetworkPart {
    pub fn word(self) -> &'static str {
        match self {
            NetworkPart::Subnet => "subnet",
            NetworkPart::Router => "router",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewNetwork {
    pub name: String,
    /// `None`: the cloud picks a free one.
    pub cidr: Option<ipnet::Ipv4Net>,
    pub labels: Labels,
    /// Where to take addresses from that nobody asks for, on a cloud that can be told; empty: anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub automatic: Vec<AddressRange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    pub name: String,
    pub labels: Labels,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewSecurityGroup {
    pub name: String,
    pub labels: Labels,
    pub rules: Vec<Rule>,
    /// Rules of an earlier run that are to go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Rule>,
}

/// Lets traffic in. What no rule lets in is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub from: Peers,
    /// `None`: every protocol and port.
    pub tcp_port: Option<u16>,
}

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Peers {
    Net(ipnet::IpNet),
    /// The instances of the same security group.
    Members,
}

const MEMBERS: &str = "members";

impl From<ipnet::Ipv4Net> for Peers {
    fn from(net: ipnet::Ipv4Net) -> Peers {
        Peers::Net(net.into())
    }
}

impl From<Peers> for String {
    fn from(peers: Peers) -> String {
        match peers {
            Peers::Net(net) => net.to_string(),
            Peers::Members => MEMBERS.to_string(),
        }
    }
}

impl TryFrom<String> for Peers {
    type Error = ipnet::AddrParseError;

    fn try_from(text: String) -> std::result::Result<Peers, ipnet::AddrParseError> {
        if text == MEMBERS { Ok(Peers::Members) } else { text.parse().map(Peers::Net) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flavor {
    pub name: String,
    pub cpus: u32,
    pub memory_mib: u64,
    /// What a job may choose nodes of this flavor by: words, or pairs such as `pci=a100`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// How the CPUs are arranged, where the cloud says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<CpuTopology>,
    /// As far as the cloud says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
}

/// All CPUs: sockets, times cores of each, times threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTopology {
    pub sockets: u32,
    pub cores: u32,
    pub threads: u32,
}

/// How much of something the cluster's owner may use in all, and uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub kind: QuotaKind,
    pub limit: u64,
    pub used: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    Instances,
    Cpus,
    MemoryMib,
}

impl QuotaKind {
    pub fn word(self) -> &'static str {
        match self {
            QuotaKind::Instances => "instances",
            QuotaKind::Cpus => "CPUs",
            QuotaKind::MemoryMib => "MiB of memory",
        }
    }
}

/// Something that the cluster's access to the cloud depends on, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    pub what: String,
    pub at: jiff::Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_is_not_shown() {
        let new = NewInstance {
            name: "n-0".into(),
            image: "i".into(),
            flavor: "f".into(),
            zone: None,
            network: "n".into(),
            address: None,
            public: false,
            security_groups: Vec::new(),
            user_data: "s3cret".into(),
            ssh_key: "k".into(),
            labels: Labels::new(),
            volumes: Vec::new(),
            disk_gib: None,
            request: None,
        };
        let rebuild = Rebuild {
            image: "i".into(),
            user_data: new.user_data.clone(),
            ssh_key: "k".into(),
            labels: Labels::new(),
        };
        let shown = format!("{new:?} {rebuild:?}");
        assert!(shown.contains("n-0") && !shown.contains("s3cret"), "{shown}");
    }
}
