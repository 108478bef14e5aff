//! Which instances are created, rebuilt or started, and which get a new target image, gathered by group and image.

use std::collections::BTreeMap;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_spec::{ImageUpdate, Node, Spec};
use kiln_wire::labels;

use super::action::{Action, Instances};
use super::node::{Inputs, existing_node, group_label, image_id, new_node, rebuilt_node};
use super::removal::Removals;
use crate::observe::Observed;
use crate::targets::Targets;

/// A node and its instance, if it has one that stays.
type Member<'a> = (Node<'a>, Option<&'a Instance>);

pub fn instances(spec: &Spec, observed: &Observed, targets: &Targets, removals: &Removals) -> Vec<Action> {
    let existing = observed.nodes();
    let mut gathered: Vec<(Need, Vec<Member<'_>>)> = Vec::new();
    let mut index: BTreeMap<Need, usize> = BTreeMap::new();
    for node in spec.nodes() {
        let instance = existing.get(node.name).copied().filter(|instance| !removals.deletes(instance));
        let target = targets.get(node.image).and_then(Option::as_deref);
        for need in needs(&node, instance, target) {
            let at = *index.entry(need.clone()).or_insert_with(|| {
                gathered.push((need, Vec::new()));
                gathered.len() - 1
            });
            gathered[at].1.push((node.clone(), instance));
        }
    }
    let inputs = Inputs::new(spec, observed, targets);
    gathered.into_iter().map(|(need, members)| need.action(&members, &inputs)).collect()
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
    fn action(self, members: &[Member<'_>], inputs: &Inputs<'_>) -> Action {
        let Need { group, image, kind } = self;
        let image = inputs.observed.image_name(&image);
        let existing = || {
            let all = members.iter().filter_map(|(node, i)| Some(existing_node(node.name, (*i)?)));
            Instances(all.collect())
        };
        match kind {
            NeedKind::Create => {
                let new = members.iter().map(|(node, _)| new_node(inputs, node));
                Action::CreateInstances { group, image, instances: Instances(new.collect()) }
            }
            NeedKind::Start => Action::StartInstances { group, instances: existing() },
            NeedKind::Rebuild { from } => {
                let rebuilt =
                    members.iter().filter_map(|(node, i)| Some(rebuilt_node(inputs, node, &(*i)?.id)));
                let instances = Instances(rebuilt.collect());
                Action::RebuildInstances {
                    group,
                    from: inputs.observed.image_name(&from),
                    to: image,
                    instances,
                }
            }
            NeedKind::LeaveToSlurm { there } => {
                let image_id = image_id(inputs.targets, &members[0].0);
                Action::LeaveToSlurm { group, image, image_id, there, instances: existing() }
            }
        }
    }
}

fn needs(node: &Node<'_>, instance: Option<&Instance>, target: Option<&str>) -> Vec<Need> {
    let need =
        |kind| Need { group: group_label(node), image: target.unwrap_or(node.image).to_string(), kind };
    let instance = match instance {
        // Slurm has nodes of elastic groups created, and kilnd replaces broken ones.
        None if node.elastic => return Vec::new(),
        None => return vec![need(NeedKind::Create)],
        // Jobs still run there: it is replaced when they have ended.
        Some(Instance { status: InstanceStatus::Error { .. }, .. }) if !node.elastic => return Vec::new(),
        Some(instance) => instance,
    };
    let current = instance.image.as_deref();
    let differs = target.is_none() || current != target;
    let mut needs = Vec::new();
    match node.image_update {
        ImageUpdate::Apply if differs => {
            needs.push(need(NeedKind::Rebuild { from: current.unwrap_or("unknown").to_string() }));
        }
        ImageUpdate::Slurm if instance.labels.get(labels::TARGET_IMAGE).map(String::as_str) != target => {
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
