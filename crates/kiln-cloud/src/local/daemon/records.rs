//! What the daemon remembers. Only intentions and facts that cannot be observed: whether an instance runs
//! is read from the system each time.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::store::Record;
use crate::{Image, Labels, Network, SecurityGroup, Volume, VolumeStatus};
use kiln_wire::{Attachment, SecretText, labels};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InstanceRecord {
    pub id: String,
    pub name: String,
    pub image: String,
    pub flavor: String,
    pub network: String,
    pub address: Ipv4Addr,
    pub security_groups: Vec<String>,
    pub user_data: SecretText,
    pub ssh_key: String,
    pub labels: Labels,
    pub volumes: Vec<Attachment>,
    pub created: jiff::Timestamp,
    pub built: Option<jiff::Timestamp>,
    pub phase: Phase,
    /// Layers of the image, bottom first.
    pub layers: Vec<String>,
    /// The layer it writes to.
    pub upper: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "lowercase")]
pub enum Phase {
    Building,
    Rebuilding,
    /// Was built: running or stopped, see there.
    Ready,
    Deleting,
    Failed {
        reason: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImageRecord {
    pub image: Image,
    /// Bottom first.
    pub layers: Vec<String>,
    /// When somebody was last told to use this source image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_out: Option<jiff::Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VolumeRecord {
    pub id: String,
    pub name: String,
    pub size_gib: u64,
    pub labels: Labels,
}

impl VolumeRecord {
    pub fn show(&self, attached_to: Vec<String>) -> Volume {
        Volume {
            id: self.id.clone(),
            name: self.name.clone(),
            size_gib: self.size_gib,
            labels: self.labels.clone(),
            attached_to,
            status: VolumeStatus::Usable,
            served: None,
        }
    }
}

/// The right of whoever has the token to the resources of one cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrantRecord {
    pub cluster: String,
    pub token_sha256: String,
}

impl Record for InstanceRecord {
    const KIND: &'static str = "instance";
    fn id(&self) -> &str {
        &self.id
    }
}

impl Record for ImageRecord {
    const KIND: &'static str = "image";
    fn id(&self) -> &str {
        &self.image.id
    }
}

impl Record for VolumeRecord {
    const KIND: &'static str = "volume";
    fn id(&self) -> &str {
        &self.id
    }
}

impl Record for Network {
    const KIND: &'static str = "network";
    fn id(&self) -> &str {
        &self.id
    }
}

impl Record for SecurityGroup {
    const KIND: &'static str = "security group";
    fn id(&self) -> &str {
        &self.id
    }
}

impl Record for GrantRecord {
    const KIND: &'static str = "grant";
    fn id(&self) -> &str {
        &self.cluster
    }
}

/// Things that carry labels.
pub trait Labelled {
    fn labels(&self) -> &Labels;

    fn cluster(&self) -> Option<&str> {
        self.labels().get(labels::CLUSTER).map(String::as_str)
    }
}

impl Labelled for InstanceRecord {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Labelled for ImageRecord {
    fn labels(&self) -> &Labels {
        &self.image.labels
    }
}

impl Labelled for VolumeRecord {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Labelled for Network {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Labelled for SecurityGroup {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Labelled for BTreeMap<String, String> {
    fn labels(&self) -> &Labels {
        self
    }
}
