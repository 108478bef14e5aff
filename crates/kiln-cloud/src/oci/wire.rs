//! What Oracle's services say, as far as Kiln listens.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde::Deserialize;

use crate::Labels;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireInstance {
    pub id: String,
    #[serde(default)]
    pub display_name: String,
    pub lifecycle_state: State,
    pub availability_domain: String,
    pub shape: String,
    #[serde(default)]
    pub shape_config: Option<ShapeConfig>,
    #[serde(default)]
    pub image_id: Option<String>,
    #[serde(default)]
    pub source_details: Option<SourceDetails>,
    #[serde(default)]
    pub freeform_tags: Labels,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    pub time_created: Timestamp,
}

impl WireInstance {
    pub fn image(&self) -> Option<String> {
        let source = self.source_details.as_ref().and_then(|source| source.image_id.clone());
        source.or_else(|| self.image_id.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    Moving,
    Provisioning,
    Running,
    Starting,
    Stopping,
    Stopped,
    CreatingImage,
    Terminating,
    Terminated,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShapeConfig {
    #[serde(default)]
    pub ocpus: f64,
    #[serde(default, rename = "memoryInGBs")]
    pub memory: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceDetails {
    #[serde(default)]
    pub image_id: Option<String>,
}

/// Of instances to VNICs, volumes or boot volumes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireAttachment {
    pub instance_id: String,
    pub lifecycle_state: String,
    #[serde(default)]
    pub vnic_id: Option<String>,
    #[serde(default)]
    pub subnet_id: Option<String>,
    #[serde(default)]
    pub volume_id: Option<String>,
    #[serde(default)]
    pub boot_volume_id: Option<String>,
    pub time_created: Timestamp,
}

impl WireAttachment {
    /// It holds, or will in a moment.
    pub fn holds(&self) -> bool {
        ["ATTACHED", "ATTACHING"].contains(&self.lifecycle_state.as_str())
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireVnic {
    pub id: String,
    #[serde(default)]
    pub public_ip: Option<IpAddr>,
    #[serde(default)]
    pub route_table_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WirePrivateIp {
    #[serde(default)]
    pub ip_address: Option<IpAddr>,
    #[serde(default)]
    pub vnic_id: Option<String>,
    #[serde(default)]
    pub display_name: Option<String>,
}

/// A VCN, a subnet, a gateway, a route table, a security list or a network security group.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub id: String,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub lifecycle_state: String,
    #[serde(default)]
    pub freeform_tags: Labels,
    #[serde(default)]
    pub vcn_id: Option<String>,
    #[serde(default)]
    pub cidr_block: Option<Ipv4Net>,
    #[serde(default)]
    pub cidr_blocks: Vec<Ipv4Net>,
}

impl Part {
    pub fn is_there(&self) -> bool {
        !["TERMINATING", "TERMINATED"].contains(&self.lifecycle_state.as_str())
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireVolume {
    pub id: String,
    #[serde(default)]
    pub display_name: String,
    pub lifecycle_state: String,
    #[serde(default, rename = "sizeInGBs")]
    pub size: Option<u64>,
    #[serde(default)]
    pub freeform_tags: Labels,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireImage {
    pub id: String,
    #[serde(default)]
    pub display_name: String,
    pub lifecycle_state: String,
    #[serde(default, rename = "sizeInMBs")]
    pub size: Option<u64>,
    #[serde(default)]
    pub freeform_tags: Labels,
    pub time_created: Timestamp,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkRequest {
    pub id: String,
    #[serde(default)]
    pub operation_type: String,
    pub status: String,
    #[serde(default)]
    pub time_accepted: Option<Timestamp>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct WorkError {
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub message: String,
}

/// Whatever has only a name and an id that matter.
#[derive(Debug, Clone, Deserialize)]
pub struct Named {
    pub name: String,
}
