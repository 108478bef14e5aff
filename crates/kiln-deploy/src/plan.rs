//! Desired minus observed: a pure function from the spec and what the cloud has to a complete list of actions.
//! Execution has no choices left.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;
use kiln_cloud::{
    AddressRange, Instance, InstanceStatus, Network, NetworkPart, Peers, Rule, VolumeStatus, label,
};
use kiln_image::{Recipe, Source};
use kiln_site::volume_name;
use kiln_spec::{ImageSource, ImageUpdate, Node, Spec, Volume};
use serde::Serialize;

use crate::addresses::{automatic, is_own};
use crate::error::{Error, Result};
use crate::notes;
use crate::observe::Observed;
use crate::targets::Targets;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub cluster: String,
    pub actions: Vec<Action>,
    /// Where file and cloud differ and no action follows: what a person should know.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    BuildImage {
        image: String,
    },
    CreateNetwork {
        name: String,
        cidr: Option<String>,
        /// What one that is there already lacks.
        #[serde(skip_serializing_if = "Option::is_none")]
        lacks: Option<NetworkPart>,
    },
    /// The cloud takes addresses that nobody asks for from this range alone: the others are kept for nodes that come
    /// and go.
    KeepAddresses {
        network: String,
        automatic: AddressRange,
    },
    CreateSecurityGroup {
        name: String,
        login: bool,
        /// It is there already, but does not let in all it should.
        #[serde(skip_serializing_if = "is_false")]
        unfinished: bool,
    },
    CreateVolume {
        name: String,
        size_gib: u64,
        /// How far the cloud has got with one that is there already.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<VolumeStatus>,
    },
    /// One per group: the cloud is asked in bulk.
    CreateInstances {
        group: String,
        nodes: Vec<String>,
        image: String,
    },
    RebuildInstances {
        group: String,
        nodes: Vec<String>,
        from: String,
        to: String,
    },
    /// The image of these nodes changes when Slurm says so.
    LeaveToSlurm {
        group: String,
        nodes: Vec<String>,
        image: String,
        /// They have it already: it is only written down.
        #[serde(skip_serializing_if = "is_false")]
        there: bool,
    },
    StartInstances {
        group: String,
        nodes: Vec<String>,
    },
    /// No longer in the file, or broken and made anew in the same plan.
    DeleteInstances {
        group: String,
        nodes: Vec<String>,
        /// Of just the instances that go: a node may have a broken one beside the one that serves.
        ids: Vec<String>,
        reason: String,
    },
}

/// Stages count from 0. Control is made in this one.
pub const CONTROL_STAGE: u8 = 3;
pub const LAST_STAGE: u8 = 4;

impl Action {
    /// Actions of one stage do not depend on one another; stages follow one another.
    pub fn stage(&self) -> u8 {
        match self {
            Action::BuildImage { .. } | Action::DeleteInstances { .. } => 0,
            Action::CreateNetwork { .. } | Action::KeepAddresses { .. } | Action::CreateVolume { .. } => 1,
            Action::CreateSecurityGroup { .. } => 2,
            // The others are told its address.
            Action::CreateInstances { group, .. } if group == "control" => CONTROL_STAGE,
            Action::CreateInstances { .. }
            | Action::RebuildInstances { .. }
            | Action::LeaveToSlurm { .. }
            | Action::StartInstances { .. } => LAST_STAGE,
        }
    }

    /// Takes something away that is there now.
    pub fn is_destructive(&self) -> bool {
        matches!(
            self,
            Action::RebuildInstances { .. }
                | Action::DeleteInstances { .. }
                | Action::CreateVolume { status: Some(VolumeStatus::Error), .. }
        )
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Nothing can be carried out before every image is there.
    pub fn check_images(&self) -> Result<()> {
        let unbuilt = self.actions.iter().find_map(|action| match action {
            Action::BuildImage { image } => Some(image.clone()),
            _ => None,
        });
        unbuilt.map_or(Ok(()), |image| Err(Error::ImageNotBuilt(image)))
    }

    pub fn is_destructive(&self) -> bool {
        self.actions.iter().any(Action::is_destructive)
    }
}

pub fn plan(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<Plan> {
    check_flavors(spec, observed)?;
    check_attached(spec, observed)?;
    check_network(spec, observed)?;
    check_prebuilt(spec, observed, targets)?;
    check_addresses(spec, observed)?;
    let mut actions: Vec<Action> = Vec::new();
    let unbuilt = targets.iter().filter(|(_, id)| id.is_none());
    actions.extend(unbuilt.map(|(image, _)| Action::BuildImage { image: image.clone() }));
    actions.extend(deletions(spec, observed));
    actions.extend(network(spec, observed));
    actions.extend(keep_addresses(spec, observed));
    actions.extend(volumes(spec, observed));
    actions.extend(security_groups(spec, observed));
    actions.extend(instances(spec, observed, targets));
    Ok(Plan { cluster: spec.name.clone(), actions, notes: notes::notes(spec, observed, targets) })
}

fn check_flavors(spec: &Spec, observed: &Observed) -> Result<()> {
    let known: Vec<&str> = observed.flavors.iter().map(|f| f.name.as_str()).collect();
    let fallbacks = spec.compute.iter().filter_map(|group| group.elastic.as_ref()).flat_map(|e| &e.flavors);
    let mut wanted = spec.nodes().map(|node| node.flavor).chain(fallbacks.map(String::as_str));
    match wanted.find(|flavor| !known.contains(flavor)) {
        None => Ok(()),
        Some(flavor) => {
            let cloud = spec.cloud.kind();
            Err(Error::Flavor { cloud, flavor: flavor.to_string(), known: known.join(", ") })
        }
    }
}

fn check_attached(spec: &Spec, observed: &Observed) -> Result<()> {
    for volume in [&spec.volumes.state, &spec.volumes.home] {
        if let Volume::Attach { name } = volume
            && !observed.attached.contains_key(name)
        {
            return Err(Error::NoVolume(name.clone()));
        }
    }
    Ok(())
}

fn check_network(spec: &Spec, observed: &Observed) -> Result<()> {
    match spec.cloud.existing_network() {
        Some(name) if !observed.networks.iter().any(|n| n.name == name) => {
            Err(Error::NoNetwork(name.to_string()))
        }
        _ => Ok(()),
    }
}

/// What is not Kiln's to build must be there.
fn check_prebuilt(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<()> {
    for (name, _) in targets.iter().filter(|(_, id)| id.is_none()) {
        if let Some(ImageSource::Prebuilt(image)) = spec.images.get(name).map(|i| &i.source) {
            return Err(Error::NoImage(image.clone()));
        }
        // What is to be built starts from an image of the cloud, perhaps by way of others.
        let mut source = Recipe::of(spec, name).map(|recipe| recipe.source);
        while let Some(Source::Image(parent)) = source {
            source = Some(parent.source);
        }
        if let Some(Source::Cloud(image)) = source
            && !observed.images.iter().any(|i| i.name == image || i.id == image)
        {
            return Err(Error::NoImage(image));
        }
    }
    Ok(())
}

/// An address that the file gives to a node that is not there yet must be free.
fn check_addresses(spec: &Spec, observed: &Observed) -> Result<()> {
    let there = observed.nodes();
    for node in spec.nodes().filter(|node| !there.contains_key(node.name)) {
        if let Some((address, by)) = node.address.and_then(|a| observed.foreign.get_key_value(&a)) {
            return Err(Error::AddressTaken {
                node: node.name.to_string(),
                address: *address,
                by: by.clone(),
            });
        }
    }
    Ok(())
}

fn network(spec: &Spec, observed: &Observed) -> Option<Action> {
    if spec.cloud.existing_network().is_some() {
        return None;
    }
    let wanted = spec.cloud.subnet();
    let (cidr, lacks) = match observed.networks.first().map(|own| (own, own.lacks)) {
        None => (wanted, None),
        Some((_, None)) => return None,
        Some((_, Some(NetworkPart::Subnet))) => (wanted, Some(NetworkPart::Subnet)),
        // Its subnet stays, whatever the file says by now.
        Some((own, lacks)) => (Some(own.cidr), lacks),
    };
    Some(Action::CreateNetwork { name: spec.name.clone(), cidr: cidr.map(|net| net.to_string()), lacks })
}

/// In a network of the cluster's own, on a cloud that says where it takes addresses from.
fn keep_addresses(spec: &Spec, observed: &Observed) -> Option<Action> {
    let network = observed.networks.first().filter(|n| is_own(n) && !n.automatic.is_empty())?;
    let automatic = automatic(spec, network.cidr)?;
    let differs = network.automatic != [automatic];
    differs.then(|| Action::KeepAddresses { network: network.name.clone(), automatic })
}

fn security_groups(spec: &Spec, observed: &Observed) -> Vec<Action> {
    let wanted = [(cluster_group(spec), false), (login_group(spec), true)];
    wanted
        .into_iter()
        .filter(|(_, login)| !login || !spec.login.is_empty())
        .filter_map(|(name, login)| {
            let there = observed.security_groups.iter().find(|group| group.name == name);
            let rules = observed.networks.first().map(|network| rules(login, network)).unwrap_or_default();
            let unfinished = there.is_some_and(|group| rules.iter().any(|r| !group.rules.contains(r)));
            (there.is_none() || unfinished).then_some(Action::CreateSecurityGroup { name, login, unfinished })
        })
        .collect()
}

/// What a group lets in.
pub fn rules(login: bool, network: &Network) -> Vec<Rule> {
    if login {
        vec![Rule { from: Ipv4Net::default().into(), tcp_port: Some(22) }]
    } else {
        // Others on the network may try to log in, as on login nodes: the deploy host may be one of them.
        let ssh = Rule { from: network.cidr.into(), tcp_port: Some(22) };
        vec![Rule { from: Peers::Members, tcp_port: None }, ssh]
    }
}

/// Everything between the cluster's own nodes.
pub fn cluster_group(spec: &Spec) -> String {
    format!("{}-cluster", spec.name)
}

/// SSH from anywhere.
pub fn login_group(spec: &Spec) -> String {
    format!("{}-login", spec.name)
}

fn volumes(spec: &Spec, observed: &Observed) -> Vec<Action> {
    let size = |volume: &Volume| match volume {
        Volume::Manage { size_gib } => Some(*size_gib),
        Volume::Attach { .. } | Volume::None => None,
    };
    let wanted =
        [("state", size(&spec.volumes.state)), ("home", size(&spec.volumes.home)), ("share", Some(1))];
    wanted
        .into_iter()
        .filter_map(|(purpose, size)| Some((volume_name(spec, purpose), size?)))
        .filter_map(|(name, size_gib)| {
            let status = observed.volumes.iter().find(|v| v.name == name).map(|v| v.status);
            let usable = status == Some(VolumeStatus::Usable);
            (!usable).then_some(Action::CreateVolume { name, size_gib, status })
        })
        .collect()
}

/// Instances of nodes that the file no longer has, and those the cloud has given up on.
fn deletions(spec: &Spec, observed: &Observed) -> Vec<Action> {
    let wanted: BTreeMap<&str, bool> = spec.nodes().map(|n| (n.name, n.elastic)).collect();
    let mut groups: BTreeMap<(String, String), (Vec<String>, Vec<String>)> = BTreeMap::new();
    for instance in &observed.instances {
        let node = instance.labels.get(label::NODE).map_or(instance.name.as_str(), String::as_str);
        let reason = match (wanted.get(node), &instance.status) {
            (None, _) => "no longer in the file".to_string(),
            (Some(false), InstanceStatus::Error { reason }) => format!("broken: {reason}"),
            _ => continue,
        };
        let group = instance.labels.get(label::GROUP).cloned().unwrap_or_default();
        let (nodes, ids) = groups.entry((group, reason)).or_default();
        nodes.push(node.to_string());
        ids.push(instance.id.clone());
    }
    groups
        .into_iter()
        .map(|((group, reason), (nodes, ids))| Action::DeleteInstances { group, nodes, ids, reason })
        .collect()
}

/// Creations, rebuilds, starts and recorded targets, gathered by group and image.
fn instances(spec: &Spec, observed: &Observed, targets: &Targets) -> Vec<Action> {
    let existing = observed.nodes();
    let mut gathered: Vec<(Need, Vec<String>)> = Vec::new();
    let mut index: BTreeMap<Need, usize> = BTreeMap::new();
    for node in spec.nodes() {
        let target = targets.get(node.image).and_then(Option::as_deref);
        for need in needs(&node, existing.get(node.name).copied(), target) {
            let at = *index.entry(need.clone()).or_insert_with(|| {
                gathered.push((need, Vec::new()));
                gathered.len() - 1
            });
            gathered[at].1.push(node.name.to_string());
        }
    }
    gathered.into_iter().map(|(need, nodes)| need.action(nodes, observed)).collect()
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    group: String,
    image: String,
    kind: NeedKind,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum NeedKind {
    Create,
    Start,
    Rebuild { from: String },
    LeaveToSlurm { there: bool },
}

impl Need {
    fn action(self, nodes: Vec<String>, observed: &Observed) -> Action {
        let Need { group, image, kind } = self;
        let image = observed.image_name(&image);
        match kind {
            NeedKind::Create => Action::CreateInstances { group, nodes, image },
            NeedKind::Start => Action::StartInstances { group, nodes },
            NeedKind::Rebuild { from } => {
                Action::RebuildInstances { group, nodes, from: observed.image_name(&from), to: image }
            }
            NeedKind::LeaveToSlurm { there } => Action::LeaveToSlurm { group, nodes, image, there },
        }
    }
}

fn needs(node: &Node<'_>, instance: Option<&Instance>, target: Option<&str>) -> Vec<Need> {
    let need =
        |kind| Need { group: group_label(node), image: target.unwrap_or(node.image).to_string(), kind };
    let instance = match instance {
        // Slurm has nodes of elastic groups made, and kilnd looks after broken ones.
        None if node.elastic => return Vec::new(),
        Some(instance) if node.elastic => instance,
        Some(instance) if !matches!(instance.status, InstanceStatus::Error { .. }) => instance,
        _ => return vec![need(NeedKind::Create)],
    };
    let current = instance.image.as_deref();
    let differs = target.is_none() || current != target;
    let mut needs = Vec::new();
    match node.image_update {
        ImageUpdate::Apply if differs => {
            needs.push(need(NeedKind::Rebuild { from: current.unwrap_or("unknown").to_string() }));
        }
        ImageUpdate::Slurm if instance.labels.get(label::TARGET_IMAGE).map(String::as_str) != target => {
            needs.push(need(NeedKind::LeaveToSlurm { there: !differs }));
        }
        ImageUpdate::Apply | ImageUpdate::Slurm => {}
    }
    // A rebuild starts the instance by itself.
    let rebuilt = needs.iter().any(|n| matches!(n.kind, NeedKind::Rebuild { .. }));
    if instance.status == InstanceStatus::Stopped && !rebuilt && !node.elastic {
        needs.push(need(NeedKind::Start));
    }
    needs
}

/// `control`, `login.NAME`, `compute.NAME`: as the file writes it.
pub fn group_label(node: &Node<'_>) -> String {
    match node.role {
        kiln_spec::Role::Control => "control".to_string(),
        role => format!("{}.{}", role.as_str(), node.group),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
