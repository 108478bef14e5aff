//! All that has been told of the cluster so far.

use std::collections::BTreeMap;

use kiln_web::view::{Change, Event, Job, Node, Overview, Rollout, RolloutNode};

use crate::sse::Message;
use crate::words::natural;

/// So many events are kept; older ones are in `kiln events`.
const EVENTS: usize = 1000;

#[derive(Debug, Default)]
pub struct Model {
    /// `None`: nothing has been told yet.
    pub overview: Option<Overview>,
    pub nodes: BTreeMap<String, Node>,
    pub jobs: BTreeMap<String, Job>,
    pub rollouts: BTreeMap<i64, Rollout>,
    pub rollout_nodes: BTreeMap<(i64, String), RolloutNode>,
    pub events: BTreeMap<i64, Event>,
    /// Why nothing can be seen at present.
    pub problem: Option<String>,
}

impl Model {
    pub fn take(&mut self, message: Message) {
        match message {
            Message::Picture(change) => {
                *self = Model::default();
                self.put(*change);
            }
            Message::Change(change) => self.put(*change),
            Message::Problem(words) => self.problem = Some(words),
            Message::Unknown(name) => {
                self.problem =
                    Some(format!("kilnd says {name:?}, which is not known here: it is of another release"));
            }
        }
    }

    fn put(&mut self, change: Change) {
        self.problem = None;
        if change.overview.is_some() {
            self.overview = change.overview;
        }
        for name in &change.nodes_gone {
            self.nodes.remove(name);
        }
        for id in &change.jobs_gone {
            self.jobs.remove(id);
        }
        self.nodes.extend(change.nodes.into_iter().map(|node| (node.name.clone(), node)));
        self.jobs.extend(change.jobs.into_iter().map(|job| (job.id.clone(), job)));
        self.rollouts.extend(change.rollouts.into_iter().map(|rollout| (rollout.id, rollout)));
        let nodes = change.rollout_nodes.into_iter();
        self.rollout_nodes.extend(nodes.map(|node| ((node.rollout, node.node.clone()), node)));
        self.events.extend(change.events.into_iter().map(|event| (event.id, event)));
        while self.events.len() > EVENTS {
            self.events.pop_first();
        }
    }

    /// Those with a word in their name, state, group, partitions, image or reason; 2 before 10.
    pub fn nodes(&self, word: &str) -> Vec<&Node> {
        let takes = |node: &&Node| {
            let reason = node.reason.as_deref().unwrap_or_default();
            let image = node.image.as_deref().unwrap_or_default();
            let texts = [node.name.as_str(), node.kind.word(), &node.group, image, reason];
            has(word, texts.into_iter().chain(node.partitions.iter().map(String::as_str)))
        };
        let mut nodes: Vec<&Node> = self.nodes.values().filter(takes).collect();
        nodes.sort_by(|a, b| natural(&a.name, &b.name));
        nodes
    }

    /// Those that wait first, the next one of them first; then those that run, the newest first.
    pub fn jobs(&self, word: &str) -> Vec<&Job> {
        let takes = |job: &&Job| {
            let why = job.waiting.as_ref().map_or("", |waiting| &waiting.text);
            has(word, [job.id.as_str(), &job.name, &job.user, &job.account, &job.partition, &job.state, why])
        };
        let mut jobs: Vec<&Job> = self.jobs.values().filter(takes).collect();
        jobs.sort_by(|a, b| {
            let order = |job: &Job| (job.waiting.is_none(), std::cmp::Reverse(job.priority));
            let newest = |job: &Job| std::cmp::Reverse(job.start.filter(|_| job.waiting.is_none()));
            (order(a).cmp(&order(b))).then(newest(a).cmp(&newest(b))).then_with(|| natural(&a.id, &b.id))
        });
        jobs
    }

    /// Newest first.
    pub fn rollouts(&self) -> Vec<&Rollout> {
        self.rollouts.values().rev().collect()
    }

    /// In the order of their turns.
    pub fn nodes_of(&self, rollout: i64) -> Vec<&RolloutNode> {
        let mut nodes: Vec<&RolloutNode> =
            self.rollout_nodes.values().filter(|node| node.rollout == rollout).collect();
        nodes.sort_by_key(|node| node.position);
        nodes
    }

    /// Newest first.
    pub fn events(&self, word: &str) -> Vec<&Event> {
        let takes =
            |event: &&Event| has(word, [event.node.as_str(), &event.what, &event.why, &event.outcome]);
        self.events.values().rev().filter(takes).collect()
    }

    /// Why jobs wait, the commonest reason first, with how many.
    pub fn reasons(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for waiting in self.jobs.values().filter_map(|job| job.waiting.as_ref()) {
            *counts.entry(&waiting.text).or_default() += 1;
        }
        let mut reasons: Vec<_> = counts.into_iter().collect();
        reasons.sort_by_key(|(text, count)| (std::cmp::Reverse(*count), *text));
        reasons
    }
}

fn has<'t>(word: &str, texts: impl IntoIterator<Item = &'t str>) -> bool {
    let word = word.to_lowercase();
    word.is_empty() || texts.into_iter().any(|text| text.to_lowercase().contains(&word))
}
