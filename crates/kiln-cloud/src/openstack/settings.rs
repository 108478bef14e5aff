//! What a cluster file says about its OpenStack project.

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// Everything here applies to all instances of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Entry of `clouds.yaml`; `None`: the environment says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Which subnet of an existing network to use, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Ipv4Net>,
    /// Name of the network that floating IPs come from and routers lead to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_network: Option<String>,
    /// Name of a key pair that exists; `None`: Kiln makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_pair: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Root disks are volumes of this kind; `None`: they are on the hypervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_disk: Option<RootDisk>,
    /// Policy of the server group that the nodes of a group are in: `anti-affinity`, `soft-affinity`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_group: Option<String>,
    /// Names of security groups that exist, for all instances, beside Kiln's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootDisk {
    pub size_gib: u64,
    /// Volume type; `None`: the cloud's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
}
