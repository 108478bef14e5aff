//! All that was last seen, and what differs from what was seen before.

use std::collections::BTreeMap;

use crate::cluster::{Look, Records};
use crate::view::{Change, Event, Group, Job, Node, NodeKind, Overview, Rollout, RolloutNode};

/// So many jobs are listed; a longer queue is counted.
pub const MOST_JOBS: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub overview: Overview,
    pub nodes: BTreeMap<String, Node>,
    pub jobs: BTreeMap<String, Job>,
    pub rollouts: BTreeMap<i64, Rollout>,
    pub rollout_nodes: BTreeMap<(i64, String), RolloutNode>,
    pub events: BTreeMap<i64, Event>,
}

impl Picture {
    pub fn new(cluster: &str, look: &Look, records: Records) -> Picture {
        let jobs: BTreeMap<String, Job> =
            look.jobs.iter().take(MOST_JOBS).map(|job| (job.id.clone(), job.clone())).collect();
        let nodes: BTreeMap<String, Node> =
            look.nodes.iter().map(|node| (node.name.clone(), node.clone())).collect();
        Picture {
            overview: overview(cluster, look, &nodes, jobs.len()),
            nodes,
            jobs,
            rollouts: records.rollouts.into_iter().map(|r| (r.id, r)).collect(),
            rollout_nodes: records
                .rollout_nodes
                .into_iter()
                .map(|n| ((n.rollout, n.node.clone()), n))
                .collect(),
            events: records.events.into_iter().map(|e| (e.id, e)).collect(),
        }
    }

    /// Everything, for somebody who knows nothing yet.
    pub fn whole(&self) -> Change {
        Change {
            overview: Some(self.overview.clone()),
            nodes: self.nodes.values().cloned().collect(),
            nodes_gone: Vec::new(),
            jobs: self.jobs.values().cloned().collect(),
            jobs_gone: Vec::new(),
            rollouts: self.rollouts.values().cloned().collect(),
            rollout_nodes: self.rollout_nodes.values().cloned().collect(),
            events: self.events.values().cloned().collect(),
        }
    }

    /// `None`: nothing but the time of the look.
    pub fn change_since(&self, before: &Picture) -> Option<Change> {
        let timeless = |overview: &Overview| Overview {
            observed: before.overview.observed,
            last_check: before.overview.last_check,
            ..overview.clone()
        };
        let is_new = timeless(&self.overview) != before.overview;
        let change = Change {
            overview: is_new.then(|| self.overview.clone()),
            nodes: changed(&before.nodes, &self.nodes),
            nodes_gone: gone(&before.nodes, &self.nodes),
            jobs: changed(&before.jobs, &self.jobs),
            jobs_gone: gone(&before.jobs, &self.jobs),
            rollouts: changed(&before.rollouts, &self.rollouts),
            rollout_nodes: changed(&before.rollout_nodes, &self.rollout_nodes),
            events: changed(&before.events, &self.events),
        };
        let is_empty = change.overview.is_none()
            && change.nodes.is_empty()
            && change.nodes_gone.is_empty()
            && change.jobs.is_empty()
            && change.jobs_gone.is_empty()
            && change.rollouts.is_empty()
            && change.rollout_nodes.is_empty()
            && change.events.is_empty();
        (!is_empty).then_some(change)
    }
}

fn changed<K: Ord, V: PartialEq + Clone>(before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Vec<V> {
    after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value))
        .map(|(_, value)| value.clone())
        .collect()
}

fn gone<V>(before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) -> Vec<String> {
    before.keys().filter(|key| !after.contains_key(*key)).cloned().collect()
}

fn overview(cluster: &str, look: &Look, nodes: &BTreeMap<String, Node>, jobs_listed: usize) -> Overview {
    let mut kinds = BTreeMap::new();
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for node in nodes.values() {
        *kinds.entry(node.kind.word().to_string()).or_default() += 1;
        let group = groups.entry(&node.group).or_insert_with(|| Group {
            name: node.group.clone(),
            elastic: node.elastic,
            nodes: BTreeMap::new(),
        });
        *group.nodes.entry(node.kind.word().to_string()).or_default() += 1;
    }
    // What is off can be had, but is not there.
    let there = nodes.values().filter(|node| node.kind != NodeKind::Off);
    let waiting = look.jobs.iter().filter(|job| job.waiting.is_some()).count();
    let mut findings = look.findings.clone();
    findings.sort_by(|a, b| (a.severity, a.since, &a.subject).cmp(&(b.severity, b.since, &b.subject)));
    Overview {
        cluster: cluster.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        observed: look.observed,
        last_check: look.last_check,
        nodes: kinds,
        groups: groups.into_values().collect(),
        cpus: there.map(|node| u64::from(node.cpus)).sum(),
        cpus_allocated: nodes.values().map(|node| u64::from(node.cpus_allocated)).sum(),
        jobs_running: look.jobs.len() - waiting,
        jobs_waiting: waiting,
        jobs_listed,
        findings,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::view::{Finding, Severity};

    fn node(name: &str, kind: NodeKind) -> Node {
        Node {
            name: name.into(),
            group: "main".into(),
            elastic: false,
            kind,
            state: None,
            partitions: Vec::new(),
            cpus: 4,
            cpus_allocated: 1,
            memory_mib: 0,
            reason: None,
            reason_by: None,
            booted: None,
            slurmd_started: None,
            address: None,
            image: None,
            instance: None,
            finding: None,
        }
    }

    fn event(id: i64) -> Event {
        let text = String::new;
        Event { id, time: Timestamp::UNIX_EPOCH, node: text(), what: text(), why: text(), outcome: text() }
    }

    fn picture(nodes: &[Node], events: &[i64], second: i64) -> Picture {
        let observed = Timestamp::from_second(second).unwrap();
        let look = Look { observed, nodes: nodes.to_vec(), ..Look::default() };
        let events = events.iter().map(|id| event(*id)).collect();
        Picture::new("demo", &look, Records { events, ..Records::default() })
    }

    #[test]
    fn only_what_differs_is_told() {
        let before = picture(&[node("a", NodeKind::Idle), node("b", NodeKind::Idle)], &[1, 2], 1);
        let after = picture(&[node("a", NodeKind::Idle), node("c", NodeKind::Down)], &[2, 3], 2);
        let change = after.change_since(&before).unwrap();
        assert_eq!(change.nodes, [node("c", NodeKind::Down)]);
        assert_eq!(change.nodes_gone, ["b"]);
        // Old events go from the picture, and are still known to whoever has seen them.
        assert_eq!(change.events, [event(3)]);
        assert_eq!(change.overview.unwrap().nodes["down"], 1);
    }

    #[test]
    fn time_alone_is_no_change() {
        let nodes = [node("a", NodeKind::Idle)];
        assert_eq!(picture(&nodes, &[1], 2).change_since(&picture(&nodes, &[1], 1)), None);
    }

    #[test]
    fn nodes_that_are_off_have_no_cores() {
        let seen = picture(&[node("a", NodeKind::Mixed), node("b", NodeKind::Off)], &[], 1).overview;
        assert_eq!((seen.cpus, seen.groups.len(), seen.groups[0].nodes["off"]), (4, 1, 1));
    }

    #[test]
    fn the_worst_comes_first() {
        let finding = |severity, subject: &str| Finding {
            severity,
            subject: subject.into(),
            text: String::new(),
            next: String::new(),
            due: None,
            since: None,
        };
        let findings = vec![finding(Severity::Note, "a"), finding(Severity::Broken, "b")];
        let look = Look { findings, ..Look::default() };
        let seen = Picture::new("demo", &look, Records::default()).overview;
        assert_eq!(seen.findings[0].subject, "b");
    }
}
