//! What a rollout does next. Pure: the whole of it, and what was observed, give a complete list of actions.

pub mod node;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kiln_slurm::{JobState, Node, REASON};
use kiln_wire::rollout::{NodeStep, Options, Rollout, RolloutNode, RolloutState, Strategy};

use super::observe::{JobObservation, NodeObservation};
use super::transitions::Transition;
use node::{NodePlan, Terms, plan_node};

/// A node is handed to Slurm at most this many times.
const TRIES: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Record where the node stands.
    Change {
        node: String,
        transition: Transition,
    },
    /// Hand the node to Slurm.
    Submit {
        node: String,
    },
    SubmitCheck {
        node: String,
    },
    /// Only while it waits.
    CancelPending {
        node: String,
        job: u64,
    },
    Cancel {
        node: String,
        job: u64,
    },
    /// If Slurm still can, the node is skipped for this reason.
    CancelReboot {
        node: String,
        reason: String,
    },
    Drain {
        node: String,
        reason: String,
    },
    Undrain {
        node: String,
    },
    /// The node is to go back to the image it had.
    TakeBack {
        node: String,
        image: String,
    },
    Become(RolloutState),
}

/// What a rollout has to keep to, whatever its options.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long Slurm waits for a node that is being rebuilt.
    pub slurm_waits: Duration,
    /// How many nodes the cloud builds at a time.
    pub concurrency: usize,
}

pub fn plan(
    rollout: &Rollout,
    seen: &BTreeMap<String, NodeObservation>,
    limits: Limits,
    now: Timestamp,
) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut steps = Vec::with_capacity(rollout.nodes.len());
    let nothing = NodeObservation::default();
    for node in &rollout.nodes {
        let mut step = node.step.clone();
        if step.is_in_flight() {
            let seen = seen.get(&node.node).unwrap_or(&nothing);
            let plan = plan_node(node, seen, terms(&rollout.options, node, limits.slurm_waits), now);
            step = act_on(rollout, node, plan, &mut actions);
        }
        steps.push(step);
    }
    let now_at = After { rollout, steps, seen, limits };
    match &rollout.state {
        RolloutState::Running => now_at.running(&mut actions),
        RolloutState::Paused => now_at.cancel_pending(&mut actions),
        RolloutState::Halting { why } => now_at.halting(why, &mut actions),
        RolloutState::Aborting => now_at.aborting(&mut actions),
        RolloutState::RollingBack { why } => now_at.rolling_back(why, &mut actions),
        RolloutState::Done
        | RolloutState::Halted { .. }
        | RolloutState::Aborted
        | RolloutState::RolledBack { .. } => {}
    }
    actions
}

fn terms(options: &Options, node: &RolloutNode, slurm_waits: Duration) -> Terms {
    let checked = options.check.is_some() && !node.rolling_back;
    Terms {
        reboot: !options.no_reboot || node.rolling_back,
        check_after: (options.strategy == Strategy::Drain || node.direct) && checked,
        slurm_waits,
    }
}

/// Turns the plan for one node into actions; returns the step that it is at after them.
fn act_on(rollout: &Rollout, node: &RolloutNode, plan: NodePlan, actions: &mut Vec<Action>) -> NodeStep {
    let name = || node.node.clone();
    let transition = match plan {
        NodePlan::Move(transition) => transition,
        NodePlan::Stay => Transition::Remark(None),
        NodePlan::SubmitCheck => {
            actions.push(Action::SubmitCheck { node: name() });
            return node.step.clone();
        }
        NodePlan::Undrain => {
            actions.push(Action::Undrain { node: name() });
            return node.step.clone();
        }
        NodePlan::Untouched => {
            untouched(rollout, node).unwrap_or_else(|| again(rollout, node, "its job was cancelled"))
        }
        NodePlan::Again(why) => again(rollout, node, &why),
        NodePlan::NotBegun(why) => {
            untouched(rollout, node).unwrap_or(Transition::HandBack { remark: Some(why) })
        }
        NodePlan::Fail { reason, drain } => {
            actions.extend(node.step.job().map(|job| Action::Cancel { node: name(), job }));
            if drain {
                let reason = format!("{REASON}rollout {}: {reason}", rollout.id);
                actions.push(Action::Drain { node: name(), reason });
            }
            Transition::Fail { reason }
        }
    };
    let step = transition.step(&node.step);
    if transition.changes(node) {
        actions.push(Action::Change { node: name(), transition });
    }
    step
}

/// For a node whose job Kiln itself cancelled, because the rollout is paused or ends.
fn untouched(rollout: &Rollout, node: &RolloutNode) -> Option<Transition> {
    let reason = match &rollout.state {
        RolloutState::Paused => return Some(Transition::HandBack { remark: None }),
        RolloutState::Halting { .. } => "the rollout was halted",
        RolloutState::Aborting => "the rollout was aborted",
        // Paused and resumed at once: Slurm's answer comes late.
        RolloutState::Running if node.remark.as_deref() == Some(CANCELLED) => {
            return Some(Transition::HandBack { remark: None });
        }
        _ => return None,
    };
    Some(Transition::Skip { reason: reason.into() })
}

/// The remark on a node whose job Kiln cancels.
pub const CANCELLED: &str = "cancelling its job";

fn again(rollout: &Rollout, node: &RolloutNode, why: &str) -> Transition {
    let goes_on = matches!(
        rollout.state,
        RolloutState::Running | RolloutState::Paused | RolloutState::RollingBack { .. }
    );
    if goes_on && node.tries < TRIES {
        return Transition::Retry { why: why.to_string() };
    }
    let times = if node.tries > 1 { format!(" (tried {} times)", node.tries) } else { String::new() };
    Transition::Fail { reason: format!("{why}{times}") }
}

/// The rollout with its nodes' new steps.
struct After<'a> {
    rollout: &'a Rollout,
    steps: Vec<NodeStep>,
    seen: &'a BTreeMap<String, NodeObservation>,
    limits: Limits,
}

impl After<'_> {
    fn nodes(&self) -> impl Iterator<Item = (&RolloutNode, &NodeStep)> {
        self.rollout.nodes.iter().zip(&self.steps)
    }

    fn in_flight(&self) -> usize {
        self.steps.iter().filter(|s| s.is_in_flight()).count()
    }

    fn running(&self, actions: &mut Vec<Action>) {
        if let Some(why) = self.reason_to_halt() {
            actions.push(Action::Become(RolloutState::Halting { why }));
            return;
        }
        if self.steps.iter().all(NodeStep::is_over) {
            actions.push(Action::Become(RolloutState::Done));
            return;
        }
        let canaries_only = !self.canaries().all(|step| *step == NodeStep::Done);
        let allowed = if canaries_only { self.rollout.options.canary } else { usize::MAX };
        self.submit(allowed, actions);
    }

    /// The nodes that go first. Those that were skipped prove nothing.
    fn canaries(&self) -> impl Iterator<Item = &NodeStep> {
        let counted = self.steps.iter().filter(|s| !matches!(s, NodeStep::Skipped { .. }));
        counted.take(self.rollout.options.canary)
    }

    fn reason_to_halt(&self) -> Option<String> {
        let options = &self.rollout.options;
        let failures: Vec<(&str, &str)> = self
            .nodes()
            .filter_map(|(node, step)| match step {
                NodeStep::Failed { reason } => Some((node.node.as_str(), reason.as_str())),
                _ => None,
            })
            .collect();
        let (node, reason) = failures.last()?;
        if self.canaries().any(|step| matches!(step, NodeStep::Failed { .. })) {
            return Some(format!("the canary failed; {node}: {reason}"));
        }
        let many = failures.len();
        (options.halt_after > 0 && many >= options.halt_after).then(|| match many {
            1 => format!("{node} failed: {reason}"),
            _ => format!("{many} nodes failed, the last {node}: {reason}"),
        })
    }

    /// Pending nodes in their order, among the first `allowed` that are not skipped.
    fn submit(&self, allowed: usize, actions: &mut Vec<Action>) {
        let most = match (self.rollout.options.max_unavailable, self.rollout.options.strategy) {
            // Slurm itself holds jobs back until the cloud has room for them.
            (0, Strategy::Job) => usize::MAX,
            // Nobody holds back a node that falls idle: it would wait in the cloud's queue, and Slurm not for ever.
            (0, Strategy::Drain) => self.limits.concurrency.max(1),
            (most, _) => most,
        };
        let room = most.saturating_sub(self.in_flight());
        let turn = self.nodes().filter(|(_, step)| !matches!(step, NodeStep::Skipped { .. })).take(allowed);
        let pending = turn.filter(|(_, step)| **step == NodeStep::Pending).take(room);
        actions.extend(pending.map(|(node, _)| Action::Submit { node: node.node.clone() }));
    }

    fn cancel_pending(&self, actions: &mut Vec<Action>) {
        for (node, step) in self.nodes() {
            let waits =
                |job: &JobObservation| matches!(job, JobObservation::Known { state: JobState::Pending, .. });
            let seen_waiting = self.seen.get(&node.node).and_then(|s| s.job.as_ref()).is_some_and(waits);
            if let (NodeStep::Submitted { job }, true) = (step, seen_waiting) {
                actions.push(Action::CancelPending { node: node.node.clone(), job: *job });
            }
        }
    }

    /// Nothing new begins, and what has not begun yet is cancelled.
    fn wind_up(&self, reason: &str, actions: &mut Vec<Action>) {
        self.cancel_pending(actions);
        for (node, step) in self.nodes() {
            let (elastic, node, reason) = (node.elastic, node.node.clone(), reason.to_string());
            match step {
                NodeStep::Pending => {
                    actions.push(Action::Change { node, transition: Transition::Skip { reason } });
                }
                // Slurm takes a node back that waits to be rebooted, but not one that waits to be powered down.
                NodeStep::Draining if !elastic => actions.push(Action::CancelReboot { node, reason }),
                _ => {}
            }
        }
    }

    fn aborting(&self, actions: &mut Vec<Action>) {
        self.wind_up("the rollout was aborted", actions);
        if self.in_flight() == 0 {
            actions.push(Action::Become(RolloutState::Aborted));
        }
    }

    fn halting(&self, why: &str, actions: &mut Vec<Action>) {
        self.wind_up("the rollout was halted", actions);
        if self.in_flight() > 0 {
            return;
        }
        let why = why.to_string();
        if !self.rollout.options.rollback_on_halt {
            actions.push(Action::Become(RolloutState::Halted { why }));
            return;
        }
        // Which image a node has must be known first.
        if self.seen.values().any(|seen| seen.doubt.is_some()) {
            return;
        }
        for node in &self.rollout.nodes {
            let Some(seen) = self.seen.get(&node.node) else { continue };
            // A node that has the image it had was not touched.
            let Some(image) = node.previous.as_ref().filter(|_| !node.rolling_back) else { continue };
            if seen.image.as_ref() != Some(image) {
                actions.push(take_back(node, image, seen));
            }
        }
        actions.push(Action::Become(RolloutState::RollingBack { why }));
    }

    fn rolling_back(&self, why: &str, actions: &mut Vec<Action>) {
        if self.steps.iter().all(NodeStep::is_over) {
            actions.push(Action::Become(RolloutState::RolledBack { why: why.to_string() }));
        } else {
            self.submit(usize::MAX, actions);
        }
    }
}

fn take_back(node: &RolloutNode, image: &str, seen: &NodeObservation) -> Action {
    let name = node.node.clone();
    if seen.slurm.as_ref().is_some_and(Node::is_drained_by_others) {
        let reason = "not taken back: somebody else has drained it".to_string();
        return Action::Change { node: name, transition: Transition::RefuseTakeBack { reason } };
    }
    Action::TakeBack { node: name, image: image.to_string() }
}

#[cfg(test)]
mod tests;
