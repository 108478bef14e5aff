//! Findings with their ages, and when each is to be acted on. Pure.

mod conditions;
pub mod rules;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::observe::node::{Observation, Stray};
use crate::store::Finding;
use rules::{Action, Found, Grace, Rule, Times, judge, judge_stray};

/// Everything that was observed in one look.
#[derive(Debug, Default)]
pub struct World {
    pub nodes: Vec<Observation>,
    pub strays: Vec<Stray>,
}

/// Something that is not as it should be.
pub struct Verdict {
    /// A node, or an instance that is no node's.
    pub subject: String,
    pub rule: &'static Rule,
    pub text: String,
    pub since: Timestamp,
    /// When Kiln does something about it; `None` where a person has to.
    pub due: Option<Timestamp>,
    pub actions: Vec<Action>,
}

impl Verdict {
    /// Being under way looks the same as being stuck, for as long as it may take.
    pub fn is_early(&self, now: Timestamp) -> bool {
        self.rule.grace == Grace::Boot && !self.is_due(now)
    }

    pub fn is_due(&self, now: Timestamp) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

/// Of every subject at most one. `before`: what earlier looks found.
pub fn plan(world: &World, before: &[Finding], times: &Times, now: Timestamp) -> Vec<Verdict> {
    let ages: HashMap<(&str, &str), &Finding> =
        before.iter().map(|f| ((f.subject.as_str(), f.rule.as_str()), f)).collect();
    let verdict = |subject: &str, (rule, found): (&'static Rule, Found)| {
        let earlier = ages.get(&(subject, rule.name));
        let since = earlier.map_or(now, |f| f.since);
        let due = due(rule, since, earlier.and_then(|f| f.acted), times);
        Verdict {
            subject: subject.to_string(),
            rule,
            since,
            due: (!found.actions.is_empty()).then_some(due),
            text: found.text,
            actions: found.actions,
        }
    };
    let nodes = world.nodes.iter().filter_map(|o| Some(verdict(&o.node, judge(o)?)));
    let strays = world.strays.iter().filter_map(|s| Some(verdict(&stray_subject(s), judge_stray(s)?)));
    nodes.chain(strays).collect()
}

/// What was done in vain is tried again, but not at every look.
fn due(rule: &Rule, since: Timestamp, acted: Option<Timestamp>, times: &Times) -> Timestamp {
    let again = Duration::from_secs(times.timing.grace.max(times.timing.reconcile));
    let first = since + rule.grace.time(times);
    acted.map_or(first, |acted| first.max(acted + again))
}

pub fn stray_subject(stray: &Stray) -> String {
    format!("{} ({})", stray.instance.name, stray.instance.id)
}
