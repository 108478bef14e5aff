//! Nodes and groups of nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

use super::Role;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlSpec {
    /// The node's name, `control` unless the file says otherwise.
    pub node: String,
    pub flavor: String,
    pub image: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub name: String,
    pub role: Role,
    /// Expanded, in the order written.
    pub nodes: Vec<String>,
    pub flavor: String,
    pub image: String,
    /// Slurm features of the nodes (compute only).
    pub features: Vec<String>,
    /// Who replaces the image of a living node. Always `Apply` for login groups.
    pub image_update: ImageUpdate,
    /// Where the nodes may be, in this order; empty: the cloud decides (compute only).
    pub zones: Vec<String>,
    /// Slurm powers the nodes up and down (compute only).
    pub elastic: Option<Elastic>,
    /// How long a healthy node may take from its reboot, onto a new image, until it is back in Slurm.
    pub rebuild_time: Duration,
    /// What the file says of GPUs; `None`: nothing (compute only).
    pub gpus: Option<GpuSpec>,
    /// The switch that the nodes are connected to, last, and those above it (compute only).
    pub switch: Option<Vec<String>>,
    /// Extra parameters of the group's `NodeName` line (compute only), in slurm.conf's own words.
    pub node_config: BTreeMap<String, String>,
    /// Settings for single nodes, by node name.
    pub overrides: BTreeMap<String, NodeOverride>,
}

/// GPUs by the file's word. What is `None` is as the cloud says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GpuSpec {
    pub count: Option<u32>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// In Slurm's notation.
    pub files: Option<String>,
    pub detect: Option<Detect>,
}

/// The plugin of slurmd that finds GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Detect {
    Nvml,
    Nvidia,
    Rsmi,
    Oneapi,
}

impl Detect {
    /// As gres.conf has it.
    pub fn name(self) -> &'static str {
        match self {
            Detect::Nvml => "nvml",
            Detect::Nvidia => "nvidia",
            Detect::Rsmi => "rsmi",
            Detect::Oneapi => "oneapi",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Elastic {
    /// How long a node may be idle before it is deleted.
    pub idle: Duration,
    /// This many of the group's first nodes are kept up at all times.
    pub min: usize,
    /// Taken in this order where the cloud has no room for the group's own flavor.
    pub flavors: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeOverride {
    pub flavor: Option<String>,
    pub image: Option<String>,
    /// Replaces the group's features.
    pub features: Option<Vec<String>>,
    pub address: Option<IpAddr>,
    /// Replaces what the group says of them.
    pub gpus: Option<GpuSpec>,
    pub switch: Option<Vec<String>>,
    /// Set over the group's.
    pub node_config: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageUpdate {
    /// `kiln apply` rebuilds the node in place, at once.
    Apply,
    /// `kiln apply` only records the new image.
    Slurm,
}

/// One node, with its group's settings and its own overrides merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Node<'a> {
    pub name: &'a str,
    pub role: Role,
    /// `control` for the control node.
    pub group: &'a str,
    pub flavor: &'a str,
    pub image: &'a str,
    pub features: &'a [String],
    pub image_update: ImageUpdate,
    pub address: Option<IpAddr>,
    /// Where it should be, if that is said.
    pub zone: Option<&'a str>,
    /// Slurm powers it up and down.
    pub elastic: bool,
}

impl Group {
    /// The extra parameters of a node's `NodeName` line. Slurm takes a parameter in any case.
    pub fn node_config(&self, node: &str) -> BTreeMap<String, String> {
        let own = self.overrides.get(node).and_then(|own| own.node_config.as_ref());
        let is_own = |key: &str| own.is_some_and(|own| own.keys().any(|k| k.eq_ignore_ascii_case(key)));
        let of_group = self.node_config.iter().filter(|(key, _)| !is_own(key));
        of_group.chain(own.into_iter().flatten()).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// What the file says of a node's GPUs.
    pub fn gpus(&self, node: &str) -> Option<&GpuSpec> {
        self.overrides.get(node).and_then(|own| own.gpus.as_ref()).or(self.gpus.as_ref())
    }

    /// The switch of a node by the file's word, last, and those above it.
    pub fn switch(&self, node: &str) -> Option<&[String]> {
        self.overrides.get(node).and_then(|own| own.switch.as_deref()).or(self.switch.as_deref())
    }

    /// The group's nodes with their overrides merged.
    pub fn members(&self) -> impl Iterator<Item = Node<'_>> {
        self.nodes.iter().map(move |name| {
            let own = self.overrides.get(name);
            Node {
                name,
                role: self.role,
                group: &self.name,
                flavor: own.and_then(|o| o.flavor.as_deref()).unwrap_or(&self.flavor),
                image: own.and_then(|o| o.image.as_deref()).unwrap_or(&self.image),
                features: own.and_then(|o| o.features.as_deref()).unwrap_or(&self.features),
                image_update: self.image_update,
                address: own.and_then(|o| o.address),
                zone: self.zones.first().map(String::as_str),
                elastic: self.elastic.is_some(),
            }
        })
    }
}
