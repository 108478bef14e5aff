//! How a node of a rollout changes its step: one method per transition, and nothing else writes to a node.
//!
//! ```text
//!              announce           queue            rebuild           boot            check           finish
//! Pending ---------------> Pending -----> Submitted -----> Rebuilding -----> Booting -----> Checking -----> Done
//!                             |  drain                        ^  |              |               |
//!                             +-------> Draining -------------+  |              |               |
//!                             |            |  |                  |              |               |
//!                             |            |  +------------------+--------------+---------------+---------> Done
//!                             |            |                     |              |               |     finish
//!                             +------------+---------------------+--------------+---------------+---------> Failed
//!                             |            |                     |              |               |     fail
//!                             +------------+---------------------+--------------+---------------+---------> Skipped
//!                             |            |                     |              |               |     skip
//!                             +<-----------+---------------------+--------------+---------------+
//!                                                        retry, hand_back
//! Done, Failed, Skipped ---------------> Pending (take_back), or Failed (refuse_take_back)
//! ```
//! Between `Pending` and its end a node follows what was observed, which may be an earlier step: Slurm requeues jobs, and a
//! node that was checked may have to boot again.

use jiff::Timestamp;
use kiln_wire::rollout::{NodeStep, RolloutNode, RolloutState};

use crate::error::{Error, Result};

/// A change of one node, as the plan names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// It is about to be handed to Slurm, or `direct`ly to the cloud. `target`: the image it is to have, if the fleet file
    /// names one.
    Announce {
        target: Option<String>,
        direct: bool,
    },
    Queue {
        job: u64,
        remark: Option<String>,
    },
    Drain,
    Rebuild {
        job: Option<u64>,
    },
    Boot {
        job: Option<u64>,
    },
    Check {
        job: u64,
    },
    Finish,
    Fail {
        reason: String,
    },
    Skip {
        reason: String,
    },
    Retry {
        why: String,
    },
    HandBack {
        remark: Option<String>,
    },
    TakeBack {
        image: String,
    },
    RefuseTakeBack {
        reason: String,
    },
    Remark(Option<String>),
}

impl Transition {
    /// The step that it leads to from `from`.
    pub fn step(&self, from: &NodeStep) -> NodeStep {
        match self {
            Transition::Announce { .. }
            | Transition::Retry { .. }
            | Transition::HandBack { .. }
            | Transition::TakeBack { .. } => NodeStep::Pending,
            Transition::Queue { job, .. } => NodeStep::Submitted { job: *job },
            Transition::Drain => NodeStep::Draining,
            Transition::Rebuild { job } => NodeStep::Rebuilding { job: *job },
            Transition::Boot { job } => NodeStep::Booting { job: *job },
            Transition::Check { job } => NodeStep::Checking { job: *job },
            Transition::Finish => NodeStep::Done,
            Transition::Fail { reason } | Transition::RefuseTakeBack { reason } => {
                NodeStep::Failed { reason: reason.clone() }
            }
            Transition::Skip { reason } => NodeStep::Skipped { reason: reason.clone() },
            Transition::Remark(_) => from.clone(),
        }
    }

    /// Whether it would change anything of the node.
    pub fn changes(&self, node: &RolloutNode) -> bool {
        let remark = match self {
            Transition::Queue { remark, .. }
            | Transition::HandBack { remark }
            | Transition::Remark(remark) => remark.as_deref(),
            _ => None,
        };
        self.step(&node.step) != node.step || remark != node.remark.as_deref()
    }
}

/// The transitions of a node. Each fails, and changes nothing, where it does not start from the node's present step.
pub trait Transitions {
    fn apply(&mut self, transition: Transition, now: Timestamp) -> Result<()>;

    /// Its turn has come. Written down before Slurm is asked: a daemon that is ended in between finds the job again by the
    /// number of the try.
    fn announce(&mut self, target: Option<String>, direct: bool, now: Timestamp) -> Result<()>;

    /// Its job waits in Slurm's queue.
    fn queue(&mut self, job: u64, remark: Option<String>, now: Timestamp) -> Result<()>;

    /// Slurm lets its jobs end and then reboots it or powers it down.
    fn drain(&mut self, now: Timestamp) -> Result<()>;

    /// The cloud rebuilds it.
    fn rebuild(&mut self, job: Option<u64>, now: Timestamp) -> Result<()>;

    /// It has its image and has to come back to Slurm.
    fn boot(&mut self, job: Option<u64>, now: Timestamp) -> Result<()>;

    /// It is back in Slurm and its job runs.
    fn check(&mut self, job: u64, now: Timestamp) -> Result<()>;

    fn finish(&mut self, now: Timestamp) -> Result<()>;

    fn fail(&mut self, reason: String, now: Timestamp) -> Result<()>;

    /// The rollout leaves it as it is.
    fn skip(&mut self, reason: String, now: Timestamp) -> Result<()>;

    /// It is handed to Slurm once more.
    fn retry(&mut self, why: &str, now: Timestamp) -> Result<()>;

    /// Its job never began, or Slurm did not even take it: as if it had never been submitted.
    fn hand_back(&mut self, remark: Option<String>, now: Timestamp) -> Result<()>;

    /// It is to go back to the image it had, when it has its turn.
    fn take_back(&mut self, image: String, now: Timestamp) -> Result<()>;

    /// It stays on its new image although the rollout goes back.
    fn refuse_take_back(&mut self, reason: String, now: Timestamp) -> Result<()>;

    /// Says something about the present step.
    fn remark(&mut self, remark: Option<String>) -> Result<()>;
}

impl Transitions for RolloutNode {
    fn apply(&mut self, transition: Transition, now: Timestamp) -> Result<()> {
        match transition {
            Transition::Announce { target, direct } => self.announce(target, direct, now),
            Transition::Queue { job, remark } => self.queue(job, remark, now),
            Transition::Drain => self.drain(now),
            Transition::Rebuild { job } => self.rebuild(job, now),
            Transition::Boot { job } => self.boot(job, now),
            Transition::Check { job } => self.check(job, now),
            Transition::Finish => self.finish(now),
            Transition::Fail { reason } => self.fail(reason, now),
            Transition::Skip { reason } => self.skip(reason, now),
            Transition::Retry { why } => self.retry(&why, now),
            Transition::HandBack { remark } => self.hand_back(remark, now),
            Transition::TakeBack { image } => self.take_back(image, now),
            Transition::RefuseTakeBack { reason } => self.refuse_take_back(reason, now),
            Transition::Remark(remark) => self.remark(remark),
        }
    }

    fn announce(&mut self, target: Option<String>, direct: bool, now: Timestamp) -> Result<()> {
        allow(self, "announced", self.step == NodeStep::Pending)?;
        // A pending node with a time was announced before: it is the same try.
        if self.begun.is_none() {
            self.tries += 1;
        }
        self.begun = self.begun.filter(|_| self.direct && direct).or(Some(now));
        self.direct = direct;
        // The reboot hook goes by the fleet file as it is then.
        if !self.rolling_back && target.is_some() {
            self.target = target;
        }
        Ok(())
    }

    fn queue(&mut self, job: u64, remark: Option<String>, now: Timestamp) -> Result<()> {
        allow(self, "submitted", !self.step.is_over())?;
        enter(self, NodeStep::Submitted { job }, remark, now);
        Ok(())
    }

    fn drain(&mut self, now: Timestamp) -> Result<()> {
        allow(self, "drained", matches!(self.step, NodeStep::Pending | NodeStep::Draining))?;
        enter(self, NodeStep::Draining, None, now);
        Ok(())
    }

    fn rebuild(&mut self, job: Option<u64>, now: Timestamp) -> Result<()> {
        allow(self, "rebuilt", !self.step.is_over())?;
        enter(self, NodeStep::Rebuilding { job }, None, now);
        Ok(())
    }

    fn boot(&mut self, job: Option<u64>, now: Timestamp) -> Result<()> {
        allow(self, "booted", self.step.is_in_flight())?;
        enter(self, NodeStep::Booting { job }, None, now);
        Ok(())
    }

    fn check(&mut self, job: u64, now: Timestamp) -> Result<()> {
        allow(self, "checked", self.step.is_in_flight())?;
        enter(self, NodeStep::Checking { job }, None, now);
        Ok(())
    }

    fn finish(&mut self, now: Timestamp) -> Result<()> {
        allow(self, "done", self.step.is_in_flight())?;
        enter(self, NodeStep::Done, None, now);
        Ok(())
    }

    fn fail(&mut self, reason: String, now: Timestamp) -> Result<()> {
        allow(self, "failed", !self.step.is_over())?;
        enter(self, NodeStep::Failed { reason }, None, now);
        Ok(())
    }

    fn skip(&mut self, reason: String, now: Timestamp) -> Result<()> {
        allow(self, "skipped", !self.step.is_over())?;
        enter(self, NodeStep::Skipped { reason }, None, now);
        Ok(())
    }

    fn retry(&mut self, why: &str, now: Timestamp) -> Result<()> {
        allow(self, "tried again", self.step.is_in_flight())?;
        enter(self, NodeStep::Pending, Some(format!("once more: {why}")), now);
        self.begun = None;
        Ok(())
    }

    fn hand_back(&mut self, remark: Option<String>, now: Timestamp) -> Result<()> {
        allow(self, "handed back", !self.step.is_over())?;
        enter(self, NodeStep::Pending, remark, now);
        if self.begun.take().is_some() {
            self.tries = self.tries.saturating_sub(1);
        }
        Ok(())
    }

    fn take_back(&mut self, image: String, now: Timestamp) -> Result<()> {
        allow(self, "taken back", self.step.is_over())?;
        enter(self, NodeStep::Pending, None, now);
        self.previous = self.target.replace(image);
        self.rolling_back = true;
        self.begun = None;
        self.direct = false;
        self.tries = 0;
        Ok(())
    }

    fn refuse_take_back(&mut self, reason: String, now: Timestamp) -> Result<()> {
        allow(self, "left on its new image", self.step.is_over())?;
        enter(self, NodeStep::Failed { reason }, None, now);
        Ok(())
    }

    fn remark(&mut self, remark: Option<String>) -> Result<()> {
        allow(self, "remarked on", self.step.is_in_flight())?;
        self.remark = remark;
        Ok(())
    }
}

/// What an administrator may ask of a whole rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Pause,
    Resume,
    Abort,
}

impl Order {
    /// `None`: not in this state.
    pub fn applied_to(self, state: &RolloutState) -> Option<RolloutState> {
        match (self, state) {
            (Order::Pause, RolloutState::Running) => Some(RolloutState::Paused),
            (Order::Resume, RolloutState::Paused) => Some(RolloutState::Running),
            (Order::Abort, RolloutState::Aborting) => None,
            (Order::Abort, state) if state.is_open() => Some(RolloutState::Aborting),
            _ => None,
        }
    }

    pub fn past_tense(self) -> &'static str {
        match self {
            Order::Pause => "paused",
            Order::Resume => "resumed",
            Order::Abort => "aborted",
        }
    }
}

fn allow(node: &RolloutNode, what: &'static str, allowed: bool) -> Result<()> {
    if allowed {
        return Ok(());
    }
    Err(Error::IllegalTransition { node: node.node.clone(), step: node.step.word(), what })
}

/// A node that stays at its step keeps its times.
fn enter(node: &mut RolloutNode, step: NodeStep, remark: Option<String>, now: Timestamp) {
    if node.step != step {
        node.since = now;
        node.finished = step.is_over().then_some(now);
        node.step = step;
    }
    node.remark = remark;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    fn node(step: NodeStep) -> RolloutNode {
        let (previous, target) = (Some("old".into()), Some("new".into()));
        RolloutNode { previous, target, step, ..RolloutNode::pending("n-0", "rebuild", second(0)) }
    }

    fn after(mut node: RolloutNode, transition: Transition) -> Result<RolloutNode> {
        node.apply(transition, second(9))?;
        Ok(node)
    }

    #[test]
    fn every_transition_starts_where_the_graph_says() {
        let reason = || "r".to_string();
        let steps = [
            NodeStep::Pending,
            NodeStep::Submitted { job: 1 },
            NodeStep::Draining,
            NodeStep::Rebuilding { job: None },
            NodeStep::Booting { job: None },
            NodeStep::Checking { job: 1 },
            NodeStep::Done,
            NodeStep::Failed { reason: reason() },
            NodeStep::Skipped { reason: reason() },
        ];
        // One letter for each of the steps above, those that it starts from.
        let rows = [
            (Transition::Announce { target: None, direct: false }, "P........"),
            (Transition::Queue { job: 2, remark: None }, "PSDRBC..."),
            (Transition::Drain, "P.D......"),
            (Transition::Rebuild { job: None }, "PSDRBC..."),
            (Transition::Boot { job: None }, ".SDRBC..."),
            (Transition::Check { job: 2 }, ".SDRBC..."),
            (Transition::Finish, ".SDRBC..."),
            (Transition::Fail { reason: reason() }, "PSDRBC..."),
            (Transition::Skip { reason: reason() }, "PSDRBC..."),
            (Transition::Retry { why: reason() }, ".SDRBC..."),
            (Transition::HandBack { remark: None }, "PSDRBC..."),
            (Transition::TakeBack { image: reason() }, "......DFS"),
            (Transition::RefuseTakeBack { reason: reason() }, "......DFS"),
            (Transition::Remark(Some(reason())), ".SDRBC..."),
        ];
        for (transition, allowed) in rows {
            for (from, letter) in steps.iter().zip(allowed.chars()) {
                let to = after(node(from.clone()), transition.clone()).map(|node| node.step);
                match to {
                    Ok(to) => {
                        assert_eq!(to, transition.step(from));
                        assert_ne!(letter, '.', "{from:?} {transition:?}");
                    }
                    Err(Error::IllegalTransition { .. }) => {
                        assert_eq!(letter, '.', "{from:?} {transition:?}");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }

    #[test]
    fn orders_are_taken_where_they_make_sense() {
        use RolloutState::{Aborted, Aborting, Paused, Running};
        let halting = || RolloutState::Halting { why: "w".into() };
        // State, then what it becomes when paused, resumed, aborted.
        let rows = [
            (Running, [Some(Paused), None, Some(Aborting)]),
            (Paused, [None, Some(Running), Some(Aborting)]),
            (halting(), [None, None, Some(Aborting)]),
            (Aborting, [None, None, None]),
            (Aborted, [None, None, None]),
        ];
        for (state, expected) in rows {
            let orders = [Order::Pause, Order::Resume, Order::Abort].map(|order| order.applied_to(&state));
            assert_eq!(orders, expected, "{state:?}");
        }
    }

    #[test]
    fn tries_count_what_was_handed_to_slurm() {
        let announce = || Transition::Announce { target: Some("newer".into()), direct: false };
        let first = after(node(NodeStep::Pending), announce()).unwrap();
        assert_eq!((first.tries, first.begun, first.target.as_deref()), (1, Some(second(9)), Some("newer")));
        let same_try = after(first, announce()).unwrap();
        assert_eq!(same_try.tries, 1);
        let queued = after(same_try, Transition::Queue { job: 7, remark: None }).unwrap();
        let back = after(queued.clone(), Transition::HandBack { remark: None }).unwrap();
        assert_eq!((back.tries, back.begun, back.step), (0, None, NodeStep::Pending));
        let again = after(queued, Transition::Retry { why: "lost".into() }).unwrap();
        assert_eq!((again.tries, again.begun, again.remark.as_deref()), (1, None, Some("once more: lost")));
    }

    #[test]
    fn a_node_that_stays_keeps_its_times() {
        let queued = node(NodeStep::Submitted { job: 7 });
        let remark = Some("waits: Resources".to_string());
        let same = Transition::Queue { job: 7, remark: remark.clone() };
        assert!(same.changes(&queued));
        let same = after(queued, same).unwrap();
        assert_eq!((same.since, same.remark), (second(0), remark));
        let done = after(node(NodeStep::Booting { job: None }), Transition::Finish).unwrap();
        assert_eq!((done.since, done.finished), (second(9), Some(second(9))));
    }

    #[test]
    fn on_its_way_back_a_node_has_its_images_the_other_way_round() {
        let back = Transition::TakeBack { image: "old".into() };
        let node = after(RolloutNode { finished: Some(second(5)), tries: 2, ..node(NodeStep::Done) }, back);
        let node = node.unwrap();
        assert_eq!((node.previous.as_deref(), node.target.as_deref()), (Some("new"), Some("old")));
        assert_eq!((node.rolling_back, node.tries, node.finished, node.begun), (true, 0, None, None));
        // A later change of the fleet file does not turn it round again.
        for direct in [false, true] {
            let announce = Transition::Announce { target: Some("newer".into()), direct };
            let announced = after(node.clone(), announce).unwrap();
            assert_eq!((announced.target.as_deref(), announced.direct), (Some("old"), direct));
        }
    }

    #[test]
    fn a_node_that_is_put_off_counts_no_try() {
        let announce = Transition::Announce { target: None, direct: false };
        let announced = after(node(NodeStep::Pending), announce).unwrap();
        let remark = Some("no more jobs just now".to_string());
        let off = after(announced, Transition::HandBack { remark: remark.clone() }).unwrap();
        assert_eq!((off.tries, off.begun, &off.remark), (0, None, &remark));
        let again = Transition::HandBack { remark: remark.clone() };
        assert!(!again.changes(&off));
        assert_eq!(after(off, again).unwrap().tries, 0);
    }
}
