//! New images for all nodes at once, also for those that Slurm would move one by one: for the time when Slurm is down
//! anyway.

use std::collections::{BTreeMap, BTreeSet};

use kiln_cloud::{Instance, InstanceStatus};
use kiln_spec::{ImageUpdate, Node, Spec};

use super::Plan;
use super::action::{Action, ExistingNode, Instances, RebuiltNode};
use super::node::{Inputs, existing_node, group_label, rebuilt_node};
use crate::observe::Observed;
use crate::targets::Targets;

/// Why an instance of an elastic group goes. No job runs there any more.
const COMES_AGAIN: &str = "Slurm has them created again with the new image";

/// `plan` with every image change that it leaves to Slurm carried out. Instances of elastic groups are deleted: Slurm
/// has them created again, with the new image, when it wants them.
pub fn all_at_once(mut plan: Plan, spec: &Spec, observed: &Observed, targets: &Targets) -> Plan {
    plan.actions.retain(|action| !matches!(action, Action::LeaveToSlurm { there: false, .. }));
    // They are about what `apply` leaves alone.
    plan.notes.clear();
    let inputs = Inputs::new(spec, observed, targets);
    // Those that go anyway, for their flavor perhaps, come again with their image.
    let gone: BTreeSet<String> = plan.deleted_instances().map(String::from).collect();
    let instances = observed.nodes();
    let mut rebuilt: BTreeMap<(String, String, String), Vec<RebuiltNode>> = BTreeMap::new();
    let mut deleted: BTreeMap<String, Vec<ExistingNode>> = BTreeMap::new();
    for node in spec.nodes().filter(|node| node.image_update == ImageUpdate::Slurm) {
        let instance = instances.get(node.name).copied().filter(|instance| !gone.contains(&instance.id));
        let Some(instance) = instance else { continue };
        let Some((from, to)) = image_change(&node, instance, observed, targets) else { continue };
        if node.elastic {
            deleted.entry(group_label(&node)).or_default().push(existing_node(node.name, instance));
        } else if !matches!(instance.status, InstanceStatus::Error { .. }) {
            let group = rebuilt.entry((group_label(&node), from, to)).or_default();
            group.push(rebuilt_node(&inputs, &node, &instance.id));
        }
    }
    plan.actions.extend(deleted.into_iter().map(|(group, nodes)| Action::DeleteInstances {
        group,
        reason: COMES_AGAIN.to_string(),
        jobs: Some(Vec::new()),
        instances: Instances(nodes),
    }));
    plan.actions.extend(rebuilt.into_iter().map(|((group, from, to), nodes)| Action::RebuildInstances {
        group,
        from,
        to,
        instances: Instances(nodes),
    }));
    plan
}

/// The names of the image that the node has and of the one that it is to get, if they differ.
fn image_change(
    node: &Node<'_>,
    instance: &Instance,
    observed: &Observed,
    targets: &Targets,
) -> Option<(String, String)> {
    let target = targets.get(node.image).and_then(Option::as_deref);
    let current = instance.image.as_deref();
    let to = target.map_or_else(|| node.image.to_string(), |id| observed.image_name(id));
    (target.is_none() || current != target)
        .then(|| (current.map_or_else(|| "unknown".to_string(), |id| observed.image_name(id)), to))
}
