//! Which instances go, and how: those of compute nodes through Slurm, when their jobs have ended.

use std::collections::{BTreeMap, BTreeSet};

use kiln_cloud::{Instance, InstanceStatus};
use kiln_spec::{Node, Role, Spec};
use kiln_wire::labels;

use super::action::{Action, ExistingNode, HeldNode, Instances};
use super::node::existing_node;
use crate::nodes::node_of;
use crate::observe::Observed;
use crate::slurm_view::{JobOnNodes, SlurmView};

/// What happens to the jobs on nodes that go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The nodes are drained, and go when their jobs have ended.
    AfterJobs,
    /// The jobs are lost.
    Now,
}

/// The actions, and which instances are gone behind them.
pub struct Removals {
    pub actions: Vec<Action>,
    deleted: BTreeSet<String>,
}

impl Removals {
    pub fn deletes(&self, instance: &Instance) -> bool {
        self.deleted.contains(&instance.id)
    }
}

/// An instance that the file does not want as it is.
pub struct Unwanted<'o> {
    pub instance: &'o Instance,
    pub node: &'o str,
    pub why: String,
    /// The cloud has lost it: it waits for its jobs only where Slurm still hears from it.
    broken: bool,
    /// The node has no other, which would be the one that runs its jobs.
    is_only: bool,
    /// Slurm powers it down, and up again as the file says.
    is_elastic: bool,
}

impl Unwanted<'_> {
    pub fn is_compute(&self) -> bool {
        let role = self.instance.labels.get(labels::ROLE).map(String::as_str);
        role == Some(Role::Compute.as_str()) || self.group().starts_with("compute.")
    }

    fn group(&self) -> String {
        self.instance.labels.get(labels::GROUP).cloned().unwrap_or_default()
    }
}

/// Instances of nodes that the file no longer has or gives another flavor, and broken ones.
pub fn unwanted<'o>(spec: &Spec, observed: &'o Observed) -> Vec<Unwanted<'o>> {
    let wanted: BTreeMap<&str, Node<'_>> = spec.nodes().map(|node| (node.name, node)).collect();
    let of_nodes = observed.nodes();
    let unwanted = |instance: &'o Instance| {
        let node = node_of(instance);
        let is_only = of_nodes.get(node).is_some_and(|of_node| of_node.id == instance.id);
        let unwanted =
            |why, broken, is_elastic| Some(Unwanted { instance, node, why, broken, is_only, is_elastic });
        match (wanted.get(node), &instance.status) {
            (None, _) => unwanted("no longer in the file".to_string(), false, false),
            // kilnd replaces broken ones of elastic groups.
            (Some(file), InstanceStatus::Error { .. }) if file.elastic => None,
            (Some(_), InstanceStatus::Error { reason }) => unwanted(format!("broken: {reason}"), true, false),
            (Some(file), _) if file.role == Role::Compute && !has_its_flavor(spec, file, instance) => {
                unwanted(format!("flavor {} -> {}", instance.flavor, file.flavor), false, file.elastic)
            }
            _ => None,
        }
    };
    let mut all: Vec<Unwanted<'o>> = observed.instances.iter().filter_map(unwanted).collect();
    // Clouds list what they made in one second in any order.
    all.sort_by_key(|one| by_number(one.node));
    all
}

/// So that n-9 comes before n-10.
fn by_number(node: &str) -> (&str, u64) {
    let prefix = node.trim_end_matches(|c: char| c.is_ascii_digit());
    (prefix, node[prefix.len()..].parse().unwrap_or(0))
}

/// A node of an elastic group may have one of several.
pub fn has_its_flavor(spec: &Spec, node: &Node<'_>, instance: &Instance) -> bool {
    let elastic = spec.compute_group(node.group).and_then(|group| group.elastic.as_ref());
    let others = elastic.filter(|_| node.role == Role::Compute).map(|e| e.flavors.as_slice());
    instance.flavor == node.flavor || others.unwrap_or_default().contains(&instance.flavor)
}

/// How an instance goes.
enum Way {
    /// With these jobs, where that is known.
    Delete(Option<Vec<JobOnNodes>>),
    Hold {
        jobs: Vec<JobOnNodes>,
        unknown: Option<String>,
    },
    /// By Slurm: when its jobs have ended, or at once with these.
    PowerDown(Option<Vec<JobOnNodes>>),
    /// Slurm is at it.
    Leave,
}

/// Nodes of one group that go for the same reason.
#[derive(Default)]
struct Together {
    deleted: Vec<ExistingNode>,
    /// Those that end with them; `None`: that is not known.
    jobs: Option<Vec<JobOnNodes>>,
    held: Vec<HeldNode>,
    powered_down: Vec<ExistingNode>,
    /// They are powered down at once, with these.
    powered_down_with: Option<Vec<JobOnNodes>>,
}

impl Together {
    fn delete(&mut self, node: ExistingNode, jobs: Option<Vec<JobOnNodes>>) {
        let before = if self.deleted.is_empty() { Some(Vec::new()) } else { self.jobs.take() };
        self.deleted.push(node);
        self.jobs = before.zip(jobs).map(|(mut all, jobs)| {
            all.extend(jobs);
            all.sort();
            all.dedup();
            all
        });
    }

    fn actions(self, group: String, reason: String) -> impl Iterator<Item = Action> {
        let held = (!self.held.is_empty()).then(|| Action::DrainInstances {
            group: group.clone(),
            reason: reason.clone(),
            instances: Instances(self.held),
        });
        let powered_down = (!self.powered_down.is_empty()).then(|| Action::PowerDownInstances {
            group: group.clone(),
            reason: reason.clone(),
            now: self.powered_down_with.is_some(),
            jobs: self.powered_down_with.unwrap_or_default(),
            instances: Instances(self.powered_down),
        });
        let deleted = (!self.deleted.is_empty()).then_some(Action::DeleteInstances {
            group,
            reason,
            jobs: self.jobs,
            instances: Instances(self.deleted),
        });
        [held, powered_down, deleted].into_iter().flatten()
    }
}

pub fn removals(spec: &Spec, observed: &Observed, removal: Removal) -> Removals {
    let mut gathered: BTreeMap<(String, String), Together> = BTreeMap::new();
    let mut deleted = BTreeSet::new();
    for one in unwanted(spec, observed) {
        let existing = existing_node(one.node, one.instance);
        let together = gathered.entry((one.group(), one.why.clone())).or_default();
        match way(&one, &observed.slurm, removal) {
            Way::Delete(jobs) => {
                deleted.insert(existing.id.clone());
                together.delete(existing, jobs);
            }
            Way::Hold { jobs, unknown } => {
                together.held.push(HeldNode { node: existing.node, id: existing.id, jobs, unknown });
            }
            Way::PowerDown(jobs) => {
                together.powered_down.push(existing);
                if let Some(jobs) = jobs {
                    let all = together.powered_down_with.get_or_insert_default();
                    all.extend(jobs);
                    all.sort();
                    all.dedup();
                }
            }
            Way::Leave => {}
        }
    }
    let actions = gathered.into_iter().flat_map(|((group, why), together)| together.actions(group, why));
    Removals { actions: actions.collect(), deleted }
}

fn way(one: &Unwanted<'_>, slurm: &SlurmView, removal: Removal) -> Way {
    if !one.is_compute() {
        return Way::Delete(None);
    }
    match slurm {
        // Slurm powers down and up by itself where it can, and kilnd is to hear of it in any case.
        _ if one.is_elastic => match slurm.node(one.node) {
            Some(node) if removal == Removal::Now && !node.state.is_powering_down_or_off() => {
                Way::PowerDown(Some(slurm.jobs_on(one.node)))
            }
            Some(node) if !node.state.is_losing_instance() => Way::PowerDown(None),
            _ => Way::Leave,
        },
        SlurmView::NotAsked => Way::Delete(None),
        // What the cloud calls broken may still run jobs.
        SlurmView::Unreachable(_) if removal == Removal::Now => Way::Delete(None),
        SlurmView::Unreachable(why) => Way::Hold { jobs: Vec::new(), unknown: Some(why.clone()) },
        SlurmView::Known { .. } => {
            let jobs = slurm.jobs_on(one.node);
            match slurm.node(one.node) {
                _ if removal == Removal::Now => Way::Delete(Some(jobs)),
                None => Way::Delete(Some(Vec::new())),
                Some(node)
                    if one.broken && !(one.is_only && node.state.is_heard_from() && node.carries_jobs()) =>
                {
                    Way::Delete(Some(Vec::new()))
                }
                Some(node) if node.state.is_drained() && !node.keeps_jobs() => Way::Delete(Some(Vec::new())),
                Some(_) => Way::Hold { jobs, unknown: None },
            }
        }
    }
}

/// A node that is in the file again, or has its old flavor there, is no longer Kiln's to drain.
pub fn stays(spec: &Spec, observed: &Observed, node: &str) -> bool {
    spec.node(node).is_some() && !unwanted(spec, observed).iter().any(|one| one.node == node)
}
