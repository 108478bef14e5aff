//! Nodes that the file no longer has while their instances, or jobs, are still there. Until they are gone Slurm must know
//! them, and their neighbours must find them: slurm.conf, hosts and kilnd's fleet are made from the file and them.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_cloud::Instance;
use kiln_slurm::{Flag, Node};
use kiln_spec::{Elastic, Group, ImageUpdate, NodeOverride, Partition, Role, Spec};
use kiln_wire::labels;

use crate::deployment::Deployment;
use crate::observe::Observed;
use crate::slurm_view::SlurmView;

/// Only until the node is gone; it takes no jobs.
const IDLE: Duration = Duration::from_secs(300);
const REBUILD_TIME: Duration = Duration::from_secs(600);

/// The file's cluster with the nodes that have yet to leave it, and their names.
pub struct Leaving {
    pub spec: Spec,
    pub nodes: Vec<String>,
}

impl Deployment<'_> {
    /// Slurm is asked only where nodes may be leaving.
    pub(crate) async fn leaving(&self, observed: &Observed) -> Leaving {
        let any = observed.instances.iter().any(|i| group_of(i).is_some() && self.is_unlisted(i));
        let elastic = self.spec.compute.iter().any(|group| group.elastic.is_some());
        let slurm = match any || elastic {
            true => self.ask_slurm_view(observed, |node| self.spec.node(node).is_none()).await,
            false => SlurmView::NotAsked,
        };
        leaving(self.spec, observed, &slurm)
    }

    fn is_unlisted(&self, instance: &Instance) -> bool {
        self.spec.node(crate::nodes::node_of(instance)).is_none()
    }
}

pub fn leaving(file: &Spec, observed: &Observed, slurm: &SlurmView) -> Leaving {
    let mut spec = file.clone();
    let mut nodes = Vec::new();
    let instances = observed.nodes();
    let unlisted = instances.iter().filter(|(name, _)| file.node(name).is_none());
    for (name, instance) in unlisted {
        let Some(group) = group_of(instance) else { continue };
        let known = slurm.node(name);
        // Slurm never knew one that was made by a run that ended before `configure`.
        if known.is_none() && !matches!(slurm, SlurmView::Unreachable(_)) {
            continue;
        }
        add(&mut spec, group, name, Some(&instance.flavor), known);
        nodes.push((*name).to_string());
    }
    // Slurm has promised them to jobs, and they are being made.
    let promised = slurm.nodes().filter(|node| file.node(&node.name).is_none() && node.keeps_jobs());
    for node in promised.filter(|node| !instances.contains_key(node.name.as_str())) {
        let group = node.partitions.iter().find(|name| file.compute_group(name).is_some());
        add(&mut spec, group.map_or("leaving", String::as_str), &node.name, None, Some(node));
        nodes.push(node.name.clone());
    }
    keep_partitions(&mut spec, &nodes, slurm);
    Leaving { spec, nodes }
}

/// The name of the compute group that an instance was made for.
fn group_of(instance: &Instance) -> Option<&str> {
    instance.labels.get(labels::GROUP)?.strip_prefix("compute.")
}

fn add(spec: &mut Spec, group: &str, node: &str, flavor: Option<&str>, known: Option<&Node>) {
    if spec.compute_group(group).is_none() {
        let new = lost_group(spec, group, known);
        spec.compute.push(new);
    }
    let Some(group) = spec.compute.iter_mut().find(|g| g.name == group) else { return };
    group.nodes.push(node.to_string());
    let gres = known.and_then(|node| node.gres.clone()).map(|gres| ("Gres".to_string(), gres));
    let own = NodeOverride {
        // What it has: Slurm ends the jobs of a node whose size changes.
        flavor: flavor.map(String::from),
        node_config: gres.map(|gres| BTreeMap::from([gres])),
        ..NodeOverride::default()
    };
    group.overrides.insert(node.to_string(), own);
}

/// A group of which the file has nothing left.
fn lost_group(spec: &Spec, name: &str, known: Option<&Node>) -> Group {
    let like = spec.compute.first();
    let is_cloud = known.is_some_and(|node| node.state.flags.has(&Flag::Cloud));
    Group {
        name: name.to_string(),
        role: Role::Compute,
        nodes: Vec::new(),
        flavor: like.map_or(&spec.control.flavor, |group| &group.flavor).clone(),
        image: like.map_or(&spec.control.image, |group| &group.image).clone(),
        features: Vec::new(),
        image_update: ImageUpdate::Slurm,
        zones: Vec::new(),
        elastic: is_cloud.then(|| Elastic { idle: IDLE, min: 0, flavors: Vec::new() }),
        rebuild_time: like.map_or(REBUILD_TIME, |group| group.rebuild_time),
        node_config: BTreeMap::new(),
        overrides: BTreeMap::new(),
    }
}

/// Slurm ends jobs whose partition is gone.
fn keep_partitions(spec: &mut Spec, nodes: &[String], slurm: &SlurmView) {
    for node in nodes {
        let group = spec.compute.iter().find(|group| group.nodes.contains(node)).map(|g| g.name.clone());
        let Some(group) = group else { continue };
        let mut needed: Vec<String> = slurm.jobs_on(node).into_iter().map(|job| job.partition).collect();
        // Nothing is known of the jobs; this is the partition that a group has unless the file says otherwise.
        if matches!(slurm, SlurmView::Unreachable(_)) {
            needed.push(group.clone());
        }
        for name in needed {
            let is_rebuild = spec.rebuild.iter().any(|partition| partition.name == name);
            match spec.partitions.iter_mut().find(|partition| partition.name == name) {
                _ if is_rebuild => {}
                Some(partition) if partition.groups.contains(&group) => {}
                Some(partition) => partition.groups.push(group.clone()),
                None => spec.partitions.push(Partition {
                    name,
                    groups: vec![group.clone()],
                    default: false,
                    max_time: None,
                    config: BTreeMap::new(),
                }),
            }
        }
    }
}
