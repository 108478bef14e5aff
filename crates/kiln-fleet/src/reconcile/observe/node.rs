//! What the rules are about: a node as Slurm and the cloud show it, and an instance that is no node's.

use std::net::IpAddr;

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::NodeState;

use crate::slurm::{Node, REASON};
use crate::store::{CloudOperation, RequestKind};

/// Reasons given by slurmctld itself, and by kilnd, are this user's.
const SLURM_USER: &str = "slurm";
/// Shown by `scontrol show node`, the first under either name.
const OUT_OF_HAND: [&str; 3] = ["MAINTENANCE", "MAINT", "FAIL"];

/// One node, as it was at one moment.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    pub node: String,
    pub group: String,
    pub elastic: bool,
    /// Of an elastic group, but to stay up whether it is needed or not.
    pub always_up: bool,
    /// `None`: Slurm does not know it.
    pub slurm: Option<Node>,
    /// All that carry the node's label, oldest first.
    pub instances: Vec<Instance>,
    /// The address that Slurm's `NodeAddr` means. Only looked up where there is more than one instance.
    pub reached_at: Option<IpAddr>,
    /// The image it should have.
    pub image: Option<String>,
    /// The share has a bundle for it: without one it could not join.
    pub is_published: bool,
    /// The bundle it should have, and since when.
    pub bundle: Option<(String, Timestamp)>,
    /// A hook's or a rollout's, that Kiln is at work on.
    pub request: Option<RequestKind>,
    /// The open rollout that has it in work.
    pub rollout: Option<i64>,
    /// What Kiln last did to its instance.
    pub operation: Option<(CloudOperation, Timestamp)>,
    pub pause: Option<Pause>,
}

/// A group that is left alone for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub until: Timestamp,
    /// In the cloud's words.
    pub problem: String,
}

/// An instance with the cluster's label for compute nodes, whose node kilnd has never heard of.
#[derive(Debug, Clone)]
pub struct Stray {
    pub instance: Instance,
    /// Made after kilnd was last told of the fleet: perhaps for a file that `kiln configure` has yet to bring.
    pub is_newer_than_fleet: bool,
}

impl Observation {
    pub fn state(&self) -> Option<&NodeState> {
        self.slurm.as_ref().map(|node| &node.state)
    }

    pub fn has(&self, flag: &str) -> bool {
        self.state().is_some_and(|state| state.has(flag))
    }

    pub fn is_down(&self) -> bool {
        self.slurm.as_ref().is_some_and(Node::is_down)
    }

    /// Slurm has it powered down, and has not asked for it since.
    pub fn is_off(&self) -> bool {
        self.has("POWERED_DOWN") && !self.is_coming_up() && !self.has("POWER_DOWN")
    }

    pub fn is_coming_up(&self) -> bool {
        self.has("POWERING_UP") || self.has("POWER_UP")
    }

    /// Slurm has called its hook. Before, it knows that the node is to come up, and takes its time: up to
    /// `power_save_interval`, and longer where `ResumeRate` bounds it.
    pub fn is_awaited(&self) -> bool {
        self.has("POWERING_UP")
    }

    pub fn is_going_down(&self) -> bool {
        self.has("POWERING_DOWN") || self.has("POWER_DOWN")
    }

    /// Slurm waits for it to boot again.
    pub fn is_rebooting(&self) -> bool {
        self.has("REBOOT_ISSUED") || self.has("REBOOT_REQUESTED")
    }

    /// Slurm means it to be there, and not only after some boot.
    pub fn is_up(&self) -> bool {
        let wanted = self.slurm.is_some() && !self.is_down();
        let at_rest = !self.is_coming_up() && !self.is_going_down() && !self.is_rebooting();
        wanted && at_rest && !self.has("POWERED_DOWN")
    }

    pub fn is_responding(&self) -> bool {
        self.slurm.is_some() && !self.has("NOT_RESPONDING")
    }

    pub fn carries_jobs(&self) -> bool {
        self.slurm.as_ref().is_some_and(Node::carries_jobs)
    }

    /// A job that waits for its node to come up is on none yet.
    pub fn runs_jobs(&self) -> bool {
        self.carries_jobs() && !self.is_coming_up() && !self.is_down()
    }

    pub fn reason(&self) -> &str {
        self.state().and_then(|state| state.reason.as_deref()).unwrap_or_default()
    }

    /// Those that are not on their way out.
    pub fn live(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|i| i.status != InstanceStatus::Deleting)
    }

    /// The only one.
    pub fn instance(&self) -> Option<&Instance> {
        let mut live = self.live();
        live.next().filter(|_| live.next().is_none())
    }

    /// How Kiln's own drains of this node begin, while its group is paused.
    pub fn pause_reason(&self) -> String {
        format!("{REASON}{} paused until ", self.group)
    }

    pub fn is_drained_for_pause(&self) -> bool {
        self.slurm.as_ref().is_some_and(|n| n.is_drained() && n.has_reason(&self.pause_reason()))
    }

    /// Why nothing is to be done about this node, whatever it looks like.
    pub fn hands_off(&self) -> Option<String> {
        if let Some(kind) = self.request {
            return Some(format!("Kiln is at work on it: {}", kind.word()));
        }
        if let Some(id) = self.rollout {
            return Some(format!("rollout {id} has it"));
        }
        let node = self.slurm.as_ref()?;
        let who = node.state.reason_by.as_deref();
        let reason = node.state.reason.as_deref().unwrap_or("no reason given");
        if node.is_drained() && !self.is_drained_for_pause() {
            return Some(format!("drained by {}: {reason}", who.unwrap_or("somebody")));
        }
        // Somebody has taken it out for a while: a reservation for maintenance, or `scontrol update state=fail`.
        if let Some(flag) = OUT_OF_HAND.iter().find(|flag| node.has_flag(flag)) {
            return Some(format!("Slurm has it as {}", flag.to_lowercase()));
        }
        if node.is_down() && who.is_some_and(|who| who != SLURM_USER) {
            return Some(format!("set down by {}: {reason}", who.unwrap_or_default()));
        }
        None
    }
}
