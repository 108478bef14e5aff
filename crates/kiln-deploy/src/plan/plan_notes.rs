//! Differences between file and cloud that `apply` leaves alone. They are shown with the plan, so that an empty plan is not
//! mistaken for agreement.

use std::collections::BTreeMap;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_site::{Purpose, volume_name};
use kiln_spec::{ImageUpdate, Node, Role, Spec, Volume, hostlist};

use super::gpus;
use super::node::{control_has_backup_volume, group_label};
use crate::addresses::reserved_addresses;
use crate::observe::Observed;
use crate::targets::Targets;

pub fn plan_notes(spec: &Spec, observed: &Observed, targets: &Targets) -> Vec<String> {
    let mut notes = nodes(spec, observed, targets);
    // The one that is used; an own one from before may be there, too.
    if let Some(network) = observed.networks.first()
        && spec.cloud.subnet().is_some_and(|wanted| wanted != network.cidr)
    {
        notes.push(format!(
            "network {}: the subnet stays {} until the cluster is destroyed",
            network.name, network.cidr
        ));
    }
    notes.extend(addresses(spec, observed));
    notes.extend(backup_volume(spec, observed));
    notes.extend(gpus::notes(spec, observed));
    notes
}

/// A control node that is older than the volume for backups.
fn backup_volume(spec: &Spec, observed: &Observed) -> Option<String> {
    let control = spec.control.node.as_str();
    let instance = observed.nodes().get(control).copied()?;
    let stays = !matches!(instance.status, InstanceStatus::Error { .. });
    let lacks = spec.backup.volume != Volume::None && !control_has_backup_volume(spec, observed);
    (lacks && stays).then(|| {
        format!(
            "{control}: has no volume {} until its instance is recreated; backups are kept on the state volume",
            volume_name(spec, Purpose::Backup)
        )
    })
}

/// Nodes that are powered down and whose addresses others have taken in the meantime.
fn addresses(spec: &Spec, observed: &Observed) -> Option<String> {
    if observed.foreign.is_empty() {
        return None;
    }
    // The addresses they would have without those others. If the network has no room at all, later steps report that.
    let alone = Observed { foreign: BTreeMap::new(), ..observed.clone() };
    let (usual, now) = (reserved_addresses(spec, &alone).ok()?, reserved_addresses(spec, observed).ok()?);
    let moved = usual.iter().filter(|(name, address)| now.get(*name) != Some(address));
    let moved: Vec<_> = moved
        .filter_map(|(name, address)| Some((name.as_str(), address, observed.foreign.get(address)?)))
        .collect();
    let (_, address, by) = moved.first()?;
    let others = if moved.len() == 1 { "" } else { ", and so on" };
    Some(format!(
        "{}: addresses are in use by others ({address} by {by}{others}); `kiln configure` gives these nodes new ones",
        hostlist::fold(moved.iter().map(|(name, ..)| *name))
    ))
}

/// One line for all nodes of a group that differ in the same way.
fn nodes(spec: &Spec, observed: &Observed, targets: &Targets) -> Vec<String> {
    let instances = observed.nodes();
    let mut gathered: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for node in spec.nodes() {
        let Some(instance) = instances.get(node.name).copied() else { continue };
        for difference in differences(&node, instance, targets) {
            gathered.entry((group_label(&node), difference)).or_default().push(node.name);
        }
    }
    let line = |((group, difference), names): ((String, String), Vec<&str>)| {
        format!("{group}: {} {difference}", hostlist::fold(names))
    };
    gathered.into_iter().map(line).collect()
}

fn differences(node: &Node<'_>, instance: &Instance, targets: &Targets) -> Vec<String> {
    let mut all = Vec::new();
    // The flavors of compute nodes change through Slurm.
    if node.role != Role::Compute && instance.flavor != node.flavor {
        all.push(format!(
            "keeps flavor {}, not {}, until the instance is recreated",
            instance.flavor, node.flavor
        ));
    }
    if node.address.is_some_and(|wanted| instance.address != Some(wanted)) {
        all.push("keeps its address until the instance is recreated".to_string());
    }
    let target = targets.get(node.image).and_then(Option::as_deref);
    if node.image_update == ImageUpdate::Slurm && target.is_some() && instance.image.as_deref() != target {
        all.push("runs another image than the file says; `kiln rebuild` moves it through Slurm".to_string());
    }
    all
}
