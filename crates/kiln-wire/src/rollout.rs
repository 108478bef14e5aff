//! Rollouts as they are asked for and reported: what `kiln rebuild` and kilnd say to one another.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

/// Why a node is skipped that needs nothing.
pub const HAS_IMAGE: &str = "has its image already";
/// The same, for a node that is powered down.
pub const IS_OFF: &str = "is off, and comes up on its image";

pub type RolloutId = i64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    pub format: Version<1>,
    /// Empty: all rebuild partitions.
    pub partitions: Vec<String>,
    /// Empty: all nodes of the partitions.
    pub nodes: Vec<String>,
    /// `NODE` in it stands for the node's name.
    pub job_name: String,
    /// Shell, run by the job on the node.
    pub command: String,
    /// Jobs only: to see how Slurm would order them.
    pub no_reboot: bool,
    pub sbatch_options: Vec<String>,
    /// Who submits the jobs; without one, Slurm's own user.
    pub user: Option<String>,
    /// This many nodes first, the others when these are proven. 0: all at once.
    pub canary: usize,
    /// At most this many nodes at a time, waiting jobs counted. 0: no limit.
    pub max_unavailable: usize,
    /// Stop after this many failures. 0: never.
    pub halt_after: usize,
    /// Take changed nodes back to the image they had.
    pub rollback_on_halt: bool,
    pub strategy: Strategy,
    /// Shell, run on the node behind the command; the node is proven if it succeeds.
    pub check: Option<String>,
    /// Also nodes that have their image already: they are rebooted.
    pub force: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            format: Version,
            partitions: Vec::new(),
            nodes: Vec::new(),
            job_name: "rebuild-NODE".into(),
            command: "sleep 5".into(),
            no_reboot: false,
            sbatch_options: Vec::new(),
            user: None,
            canary: 0,
            max_unavailable: 0,
            halt_after: 3,
            rollback_on_halt: false,
            strategy: Strategy::Job,
            check: None,
            force: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// One job per node in the rebuild partition, which outranks user jobs.
    Job,
    /// `scontrol reboot ASAP`: no new jobs on the node until it is rebuilt.
    Drain,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RolloutState {
    Running,
    Paused,
    /// What was begun is followed to its end, nothing new begins.
    Halting {
        why: String,
    },
    Aborting,
    RollingBack {
        why: String,
    },
    /// All nodes had their turn; some may have failed.
    Done,
    Halted {
        why: String,
    },
    Aborted,
    RolledBack {
        why: String,
    },
}

impl RolloutState {
    /// There is still something to do.
    pub fn is_open(&self) -> bool {
        use RolloutState::{Aborting, Halting, Paused, RollingBack, Running};
        matches!(self, Running | Paused | Halting { .. } | Aborting | RollingBack { .. })
    }

    /// For people.
    pub fn message(&self) -> String {
        match self {
            RolloutState::Running => "running".into(),
            RolloutState::Paused => "paused: nothing new begins until it is resumed".into(),
            RolloutState::Halting { why } => format!("halting: {why}"),
            RolloutState::Aborting => {
                "aborting: nodes that are being rebuilt are followed to their end".into()
            }
            RolloutState::RollingBack { why } => format!("rolling back: {why}"),
            RolloutState::Done => "done".into(),
            RolloutState::Halted { why } => {
                format!("halted: {why}; nodes that were not touched stay in service as they are")
            }
            RolloutState::Aborted => "aborted".into(),
            RolloutState::RolledBack { why } => format!("rolled back: {why}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum NodeStep {
    Pending,
    /// Its job waits for the node.
    Submitted {
        job: u64,
    },
    /// Slurm lets its jobs end, then calls the reboot hook, or the suspend hook of an elastic group's node.
    Draining,
    Rebuilding {
        job: Option<u64>,
    },
    /// The instance has its image; Slurm has not seen it yet.
    Booting {
        job: Option<u64>,
    },
    /// Back in Slurm; its job runs.
    Checking {
        job: u64,
    },
    Done,
    Failed {
        reason: String,
    },
    Skipped {
        reason: String,
    },
}

impl NodeStep {
    pub fn job(&self) -> Option<u64> {
        match self {
            NodeStep::Submitted { job } | NodeStep::Checking { job } => Some(*job),
            NodeStep::Rebuilding { job } | NodeStep::Booting { job } => *job,
            _ => None,
        }
    }

    pub fn is_in_flight(&self) -> bool {
        !matches!(self, NodeStep::Pending) && !self.is_over()
    }

    pub fn is_over(&self) -> bool {
        matches!(self, NodeStep::Done | NodeStep::Failed { .. } | NodeStep::Skipped { .. })
    }

    /// As a table wants it.
    pub fn word(&self) -> &'static str {
        match self {
            NodeStep::Pending => "pending",
            NodeStep::Submitted { .. } => "submitted",
            NodeStep::Draining => "draining",
            NodeStep::Rebuilding { .. } => "rebuilding",
            NodeStep::Booting { .. } => "booting",
            NodeStep::Checking { .. } => "checking",
            NodeStep::Done => "done",
            NodeStep::Failed { .. } => "failed",
            NodeStep::Skipped { .. } => "skipped",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutNode {
    pub node: String,
    pub partition: String,
    /// The image it had.
    pub previous: Option<String>,
    /// The image it is to have.
    pub target: Option<String>,
    #[serde(flatten)]
    pub step: NodeStep,
    /// When the present step began.
    pub since: Timestamp,
    /// When it was handed to Slurm, this time. A pending node with it: that may or may not have happened.
    pub begun: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    /// How many times it was handed to Slurm.
    pub tries: u32,
    /// What there is to say about the present step.
    pub remark: Option<String>,
    /// On its way back to the image it had before.
    pub rolling_back: bool,
    /// Without Slurm, which cannot run a job there.
    #[serde(default)]
    pub direct: bool,
    /// Of an elastic group: powered down as soon as it is idle, and on its image whenever it comes up again.
    #[serde(default)]
    pub elastic: bool,
}

impl RolloutNode {
    /// One that waits for its turn.
    pub fn pending(node: &str, partition: &str, since: Timestamp) -> Self {
        RolloutNode {
            node: node.into(),
            partition: partition.into(),
            previous: None,
            target: None,
            step: NodeStep::Pending,
            since,
            begun: None,
            finished: None,
            tries: 0,
            remark: None,
            rolling_back: false,
            direct: false,
            elastic: false,
        }
    }

    /// Something happens to it on the rollout's account, or may. A node that waits for its turn, or had it, is like any
    /// other; so is one whose job waits in the queue.
    pub fn is_in_work(&self) -> bool {
        match self.step {
            NodeStep::Draining
            | NodeStep::Rebuilding { .. }
            | NodeStep::Booting { .. }
            | NodeStep::Checking { .. } => true,
            NodeStep::Pending => self.begun.is_some(),
            NodeStep::Submitted { .. }
            | NodeStep::Done
            | NodeStep::Failed { .. }
            | NodeStep::Skipped { .. } => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    pub id: RolloutId,
    pub created: Timestamp,
    pub finished: Option<Timestamp>,
    #[serde(flatten)]
    pub state: RolloutState,
    pub options: Options,
    /// In the order in which they have their turn.
    pub nodes: Vec<RolloutNode>,
}

/// A rollout as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutReport {
    #[serde(default)]
    pub format: Version<1>,
    #[serde(flatten)]
    pub rollout: Rollout,
    pub message: String,
    pub pending: usize,
    pub in_flight: usize,
    pub done: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl From<Rollout> for RolloutReport {
    fn from(rollout: Rollout) -> Self {
        let count = |test: fn(&NodeStep) -> bool| rollout.nodes.iter().filter(|n| test(&n.step)).count();
        let failed = count(|s| matches!(s, NodeStep::Failed { .. }));
        let message = match (&rollout.state, failed) {
            (RolloutState::Done, 1) => "done, but a node failed".into(),
            (RolloutState::Done, 2..) => format!("done, but {failed} nodes failed"),
            (state, _) => state.message(),
        };
        RolloutReport {
            format: Version,
            message,
            pending: count(|s| matches!(s, NodeStep::Pending)),
            in_flight: count(NodeStep::is_in_flight),
            done: count(|s| matches!(s, NodeStep::Done)),
            failed,
            skipped: count(|s| matches!(s, NodeStep::Skipped { .. })),
            rollout,
        }
    }
}

/// A node's step in words, with its job or its reason.
pub fn step_text(node: &RolloutNode) -> String {
    let back = if node.rolling_back { " (going back)" } else { "" };
    let more = match &node.step {
        NodeStep::Failed { reason } | NodeStep::Skipped { reason } => format!(": {reason}"),
        step => step.job().map(|job| format!(", job {job}")).unwrap_or_default(),
    };
    let remark = node.remark.as_ref().map(|r| format!("; {r}")).unwrap_or_default();
    format!("{}{more}{back}{remark}", node.step.word())
}

impl Format for Options {
    const NAME: &'static str = "rollout request";
    const VERSION: u32 = 1;
}

impl Format for RolloutReport {
    const NAME: &'static str = "rollout report";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_in_work_from_its_turn_to_its_end() {
        let (job, reason) = (7, String::new());
        for (step, begun, in_work) in [
            (NodeStep::Pending, false, false),
            (NodeStep::Pending, true, true),
            (NodeStep::Submitted { job }, true, false),
            (NodeStep::Draining, true, true),
            (NodeStep::Rebuilding { job: None }, true, true),
            (NodeStep::Booting { job: None }, true, true),
            (NodeStep::Checking { job }, true, true),
            (NodeStep::Done, true, false),
            (NodeStep::Failed { reason: reason.clone() }, true, false),
            (NodeStep::Skipped { reason }, false, false),
        ] {
            let waiting = RolloutNode::pending("n-0", "rebuild", Timestamp::UNIX_EPOCH);
            let node = RolloutNode { step, begun: begun.then_some(waiting.since), ..waiting };
            assert_eq!(node.is_in_work(), in_work, "{node:?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let options = Options { canary: 2, user: Some("ann".into()), ..Options::default() };
        assert_eq!(Options::from_json(&options.to_json().unwrap()).unwrap(), options);
        assert_eq!(Options::from_json(b"{}").unwrap(), Options::default());
        let pending = RolloutNode::pending("n-0", "rebuild", Timestamp::UNIX_EPOCH);
        let failed = RolloutNode { step: NodeStep::Failed { reason: "why".into() }, ..pending.clone() };
        let report = RolloutReport::from(Rollout {
            id: 3,
            created: Timestamp::UNIX_EPOCH,
            finished: None,
            state: RolloutState::Halting { why: "a node failed".into() },
            options,
            nodes: vec![pending, failed],
        });
        assert_eq!(RolloutReport::from_json(&report.to_json().unwrap()).unwrap(), report);
        assert_eq!(Vec::from_json(&vec![report.clone()].to_json().unwrap()), Ok(vec![report]));
    }
}
