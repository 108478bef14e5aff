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
        let slurm = if any || elastic {
            self.ask_slurm_view(observed, |node| self.spec.node(node).is_none()).await
        } else {
            SlurmView::NotAsked
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
        gpus: None,
        switch: None,
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
                    qos: None,
                    allow_accounts: None,
                    allow_qos: None,
                    config: BTreeMap::new(),
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_cloud::{InstanceStatus, Labels};
    use kiln_slurm::parse_nodes;

    use super::*;
    use crate::slurm_view::JobOnNodes;

    const FILE: &str = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a-0\"\n";

    fn seen(instances: &[(&str, &str)], slurm: &SlurmView) -> Leaving {
        let file = kiln_spec::parse(FILE, "f").unwrap_or_else(|e| panic!("{e}"));
        let instance = |(name, group): &(&str, &str)| Instance {
            id: format!("id-{name}"),
            name: (*name).into(),
            status: InstanceStatus::Active,
            image: None,
            flavor: "large".into(),
            address: None,
            public_address: None,
            labels: Labels::from([
                (labels::NODE.to_string(), (*name).to_string()),
                (labels::GROUP.to_string(), (*group).to_string()),
            ]),
            volumes: Vec::new(),
            created: jiff::Timestamp::UNIX_EPOCH,
            built: None,
        };
        let observed =
            Observed { instances: instances.iter().map(instance).collect(), ..Observed::default() };
        leaving(&file, &observed, slurm)
    }

    fn known(lines: &str, job_on: &str, partition: &str) -> SlurmView {
        let job = JobOnNodes {
            id: "7".into(),
            user: "u".into(),
            partition: partition.into(),
            until: None,
            nodes: vec![job_on.into()],
        };
        SlurmView::Known { nodes: parse_nodes(lines), jobs: vec![job] }
    }

    #[test]
    fn a_node_stays_in_its_group_with_its_size() {
        let instances = [("a-0", "compute.a"), ("a-1", "compute.a"), ("l-9", "login.l")];
        let found = seen(&instances, &known("NodeName=a-1 State=MIXED Gres=gpu:2(S:0)", "a-1", "a"));
        assert_eq!(found.nodes, ["a-1"]);
        let node = found.spec.node("a-1").unwrap();
        assert_eq!((node.group, node.flavor, node.elastic), ("a", "large", false));
        let config = found.spec.compute_group("a").unwrap().node_config("a-1");
        assert_eq!(config.get("Gres").map(String::as_str), Some("gpu:2"));
        assert_eq!(found.spec.partitions.len(), 1, "{:?}", found.spec.partitions);
    }

    #[test]
    fn a_group_that_left_keeps_the_partition_of_its_jobs() {
        let found = seen(&[("b-0", "compute.b")], &known("NodeName=b-0 State=MIXED+CLOUD", "b-0", "night"));
        assert!(found.spec.node("b-0").unwrap().elastic);
        let kept = found.spec.partitions.iter().find(|p| p.name == "night").unwrap();
        assert_eq!((kept.groups.as_slice(), kept.default), (&["b".to_string()][..], false));
        // Its jobs are not known: it keeps the partition of its own name.
        let found = seen(&[("b-0", "compute.b")], &SlurmView::Unreachable("x".into()));
        assert!(found.spec.partitions.iter().any(|p| p.name == "b"));
    }

    #[test]
    fn only_what_slurm_knows_is_kept() {
        let none = seen(&[("a-1", "compute.a")], &known("NodeName=a-0 State=IDLE", "a-0", "a"));
        assert_eq!(none.nodes, Vec::<String>::new());
        assert_eq!(seen(&[("a-1", "compute.a")], &SlurmView::NotAsked).nodes, Vec::<String>::new());
        // Slurm has promised it to a job: its instance is on the way.
        let lines =
            "NodeName=a-1 State=ALLOCATED+CLOUD+POWERING_UP Partitions=a\nNodeName=a-2 State=IDLE+CLOUD";
        assert_eq!(seen(&[], &known(lines, "a-1", "a")).nodes, ["a-1"]);
    }
}
