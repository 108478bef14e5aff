//! What one node's instance is given: security groups, volumes, labels, the way to the share.

use std::net::IpAddr;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_site::{Purpose, on_file_storage, volume_name};
use kiln_spec::{ImageUpdate, Node, Role, Spec, Volume};
use kiln_wire::bundle::MountSource;
use kiln_wire::labels;

use super::action::{ExistingNode, NewNode, PlannedAttachment, PlannedLabels, RebuiltNode};
use super::network::{cluster_group, control_address, login_group, network_id, security_group_id};
use super::reference::{Ref, Resource};
use super::volumes::volume_id;
use crate::nodes::hosts;
use crate::observe::Observed;
use crate::targets::Targets;

/// What the planner knows of the cluster as a whole.
pub struct Inputs<'a> {
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub targets: &'a Targets,
    share: Ref<MountSource>,
}

impl<'a> Inputs<'a> {
    pub fn new(spec: &'a Spec, observed: &'a Observed, targets: &'a Targets) -> Inputs<'a> {
        Inputs { spec, observed, targets, share: share(spec, observed) }
    }

    /// Only compute nodes are told where the share is: the others are configured over SSH.
    fn share_of(&self, node: &Node<'_>) -> Option<Ref<MountSource>> {
        (node.role == Role::Compute).then(|| self.share.clone())
    }
}

pub fn new_node(inputs: &Inputs<'_>, node: &Node<'_>) -> NewNode {
    let Inputs { spec, observed, targets, .. } = inputs;
    let image_id = image_id(targets, node);
    NewNode {
        node: node.name.to_string(),
        flavor: node.flavor.to_string(),
        zone: node.zone.map(String::from),
        network: network_id(spec, observed),
        address: node.address.or_else(|| {
            let control = node.role == Role::Control;
            control.then(|| control_address(spec, observed)).flatten()
        }),
        public: node.role == Role::Login,
        security_groups: security_groups_of(spec, observed, node),
        volumes: attachments(spec, observed, node),
        keeps_address: (node.role == Role::Control)
            .then(|| volume_id(observed, volume_name(spec, Purpose::Share))),
        labels: labels(spec, node, &image_id),
        share: inputs.share_of(node),
        image_id,
    }
}

pub fn rebuilt_node(inputs: &Inputs<'_>, node: &Node<'_>, id: &str) -> RebuiltNode {
    let Inputs { spec, observed, targets, .. } = inputs;
    let image_id = image_id(targets, node);
    let control = (node.role == Role::Control).then(|| hosts(spec, observed, std::iter::once(node.name)));
    RebuiltNode {
        node: node.name.to_string(),
        id: id.to_string(),
        labels: labels(spec, node, &image_id),
        share: inputs.share_of(node),
        image_id,
        // A control node that cannot be reached must still be replaceable.
        stop_daemons: control.and_then(|hosts| hosts.ok()?.pop()),
    }
}

pub fn existing_node(node: &str, instance: &Instance) -> ExistingNode {
    ExistingNode { node: node.to_string(), id: instance.id.clone() }
}

pub fn image_id(targets: &Targets, node: &Node<'_>) -> Ref<String> {
    match targets.get(node.image).cloned().flatten() {
        Some(id) => Ref::Known(id),
        None => Ref::Made(Resource::Image(node.image.to_string())),
    }
}

/// Ids.
pub fn security_groups_of(spec: &Spec, observed: &Observed, node: &Node<'_>) -> Vec<Ref<String>> {
    let names = match node.role {
        Role::Login => vec![cluster_group(spec), login_group(spec)],
        Role::Control | Role::Compute => vec![cluster_group(spec)],
    };
    names.into_iter().map(|name| security_group_id(observed, name)).collect()
}

/// Where several instances may have a volume at once, the share and the home directories reach the nodes as volumes.
/// Elsewhere only the control node has them, and exports them.
pub fn attachments(spec: &Spec, observed: &Observed, node: &Node<'_>) -> Vec<PlannedAttachment> {
    if node.role != Role::Control && !spec.cloud.facts().shares_volumes {
        return Vec::new();
    }
    let mut wanted: Vec<(Purpose, bool)> = vec![];
    if ![Volume::None, Volume::FileStorage].contains(&spec.volumes.home) {
        wanted.push((Purpose::Home, false));
    }
    match node.role {
        Role::Control => {
            if !on_file_storage(spec, Purpose::Share) {
                wanted.push((Purpose::Share, false));
            }
            if spec.volumes.state != Volume::None {
                wanted.push((Purpose::State, false));
            }
            if spec.backup.volume != Volume::None {
                wanted.push((Purpose::Backup, false));
            }
        }
        Role::Compute => wanted.push((Purpose::Share, true)),
        Role::Login => {}
    }
    let attachment = |(purpose, read_only)| PlannedAttachment {
        volume: volume_id(observed, volume_name(spec, purpose)),
        read_only,
    };
    wanted.into_iter().map(attachment).collect()
}

/// Whether the control node's instance has the volume for backups. One that was created before the volume does not get
/// it: volumes are attached when an instance is created.
pub fn control_has_backup_volume(spec: &Spec, observed: &Observed) -> bool {
    let name = volume_name(spec, Purpose::Backup);
    let nodes = observed.nodes();
    let (Some(control), Some(volume)) =
        (nodes.get(spec.control.node.as_str()), observed.volumes.iter().find(|volume| volume.name == name))
    else {
        return false;
    };
    volume.attached_to.contains(&control.id) || control.volumes.contains(&volume.id)
}

/// Where compute nodes find the share.
pub fn share(spec: &Spec, observed: &Observed) -> Ref<MountSource> {
    if spec.cloud.facts().shares_volumes {
        return Ref::Known(MountSource::Volume(volume_name(spec, Purpose::Share)));
    }
    if on_file_storage(spec, Purpose::Share) {
        let name = volume_name(spec, Purpose::Share);
        let there = observed.volumes.iter().find(|volume| volume.name == name);
        return match there.and_then(|volume| volume.served.as_ref()?.at.clone()) {
            Some(at) => Ref::Known(MountSource::Nfs3(at)),
            None => Ref::Made(Resource::Volume(name)),
        };
    }
    control_at(spec, observed).map(exported_share)
}

/// The address of the control node.
pub fn control_at(spec: &Spec, observed: &Observed) -> Ref<IpAddr> {
    let control = spec.control.node.as_str();
    // A broken one is recreated, perhaps at another address.
    let stays = |instance: &&Instance| !matches!(instance.status, InstanceStatus::Error { .. });
    match observed.nodes().get(control).copied().filter(stays).and_then(|instance| instance.address) {
        Some(address) => Ref::Known(address),
        None => Ref::Made(Resource::Instance(control.to_string())),
    }
}

/// The share as the control node at this address exports it.
pub fn exported_share(control: IpAddr) -> MountSource {
    MountSource::Nfs(format!("{control}:{}", kiln_wire::paths::SHARE))
}

fn labels(spec: &Spec, node: &Node<'_>, image_id: &Ref<String>) -> PlannedLabels {
    let label = |key: &str, value: &str| (key.to_string(), Ref::Known(value.to_string()));
    let mut labels = PlannedLabels::from([
        label(labels::CLUSTER, &spec.name),
        label(labels::NODE, node.name),
        label(labels::ROLE, node.role.as_str()),
        label(labels::GROUP, &group_label(node)),
    ]);
    if node.image_update == ImageUpdate::Slurm {
        labels.insert(labels::TARGET_IMAGE.to_string(), image_id.clone());
    }
    labels
}

/// `control`, `login.NAME`, `compute.NAME`: as the file writes it.
pub fn group_label(node: &Node<'_>) -> String {
    match node.role {
        Role::Control => "control".to_string(),
        role => format!("{}.{}", role.as_str(), node.group),
    }
}
