//! Findings with their ages, and when each is to be acted on. Pure.

mod brake;
mod conditions;
pub mod rules;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::observe::Observation;
use super::observe::node::Stray;
use crate::store::FindingRecord;
pub use brake::brake;
use rules::{Action, Diagnosis, Grace, Rule, Times, diagnose, diagnose_stray};

/// Something that is not as it should be.
pub struct Finding {
    /// A node, or an instance that belongs to no node.
    pub subject: String,
    pub rule: &'static Rule,
    pub text: String,
    pub since: Timestamp,
    /// When Kiln does something about it; `None` where a person has to.
    pub due: Option<Timestamp>,
    pub actions: Vec<Action>,
}

impl Finding {
    /// A node that is coming up cannot be told from one that is stuck, for as long as a boot may take.
    pub fn is_early(&self, now: Timestamp) -> bool {
        self.rule.grace == Grace::Boot && !self.is_due(now)
    }

    /// The same finding, with nothing done about it.
    #[must_use]
    pub fn reported_only(self) -> Finding {
        Finding { due: None, actions: Vec::new(), ..self }
    }

    pub fn is_due(&self, now: Timestamp) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

/// At most one finding of every subject. `before`: what earlier rounds found.
pub fn plan(
    observation: &Observation,
    before: &[FindingRecord],
    times: &Times,
    now: Timestamp,
) -> Vec<Finding> {
    let ages: HashMap<(&str, &str), &FindingRecord> =
        before.iter().map(|f| ((f.subject.as_str(), f.rule.as_str()), f)).collect();
    let finding = |subject: &str, (rule, found): (&'static Rule, Diagnosis)| {
        let earlier = ages.get(&(subject, rule.name));
        let since = earlier.map_or(now, |f| f.since);
        let due = due(rule, since, earlier.and_then(|f| f.acted), times);
        Finding {
            subject: subject.to_string(),
            rule,
            since,
            due: (!found.actions.is_empty()).then_some(due),
            text: found.text,
            actions: found.actions,
        }
    };
    let nodes = observation.nodes.iter().filter_map(|o| Some(finding(&o.node, diagnose(o)?)));
    let strays =
        observation.strays.iter().filter_map(|s| Some(finding(&stray_subject(s), diagnose_stray(s)?)));
    nodes.chain(strays).collect()
}

/// An action that did not help is repeated, but not in every round.
fn due(rule: &Rule, since: Timestamp, acted: Option<Timestamp>, times: &Times) -> Timestamp {
    let again = Duration::from_secs(times.timing.grace.max(times.timing.reconcile));
    let first = since + rule.grace.time(times);
    acted.map_or(first, |acted| first.max(acted + again))
}

pub fn stray_subject(stray: &Stray) -> String {
    format!("{} ({})", stray.instance.name, stray.instance.id)
}
