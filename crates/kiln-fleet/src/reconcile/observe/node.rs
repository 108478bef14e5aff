//! What the rules are about: a node as Slurm and the cloud show it, and an instance that belongs to no node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::{Node, REASON, State};

pub use crate::cloud_view::Unlisted;
use crate::store::{CloudOperation, RequestKind};

/// One node, as it was at one moment.
#[derive(Debug, Clone, Default)]
pub struct NodeObservation {
    pub node: String,
    pub group: String,
    pub elastic: bool,
    /// Of an elastic group, but to stay up whether it is needed or not.
    pub always_up: bool,
    /// `None`: Slurm does not know it.
    pub slurm: Option<Node>,
    /// All that carry the node's label, oldest first.
    pub instances: Vec<Instance>,
    /// By id: when kilnd first saw them, by this host's clock.
    pub first_seen: BTreeMap<String, Timestamp>,
    /// It had an instance that the cloud's list lacks, and that is not known to be gone.
    pub unlisted: Option<Unlisted>,
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
    /// Why Kiln last drained it, if nobody has ended that drain or put another in its place.
    pub drained_for: Option<String>,
}

/// A group that is left alone for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub until: Timestamp,
    /// In the cloud's words.
    pub problem: String,
}

/// An instance with the cluster's label for compute nodes, whose node is not in the fleet file.
#[derive(Debug, Clone)]
pub struct Stray {
    pub instance: Instance,
    /// First seen after the fleet file was written: perhaps for a node that the next `kiln configure` adds to it.
    pub is_newer_than_fleet: bool,
    /// Slurm has a node of its name, and may run jobs there.
    pub is_known_to_slurm: bool,
}

impl NodeObservation {
    pub fn state(&self) -> Option<&State> {
        self.slurm.as_ref().map(|node| &node.state)
    }

    /// Whether Slurm knows the node, and has it in a state that answers the question with yes.
    fn is(&self, question: impl FnOnce(&State) -> bool) -> bool {
        self.state().is_some_and(question)
    }

    pub fn is_down(&self) -> bool {
        self.is(State::is_down)
    }

    pub fn is_off(&self) -> bool {
        self.is(State::is_off)
    }

    pub fn is_coming_up(&self) -> bool {
        self.is(State::is_coming_up)
    }

    pub fn is_powering_up(&self) -> bool {
        self.is(State::is_powering_up)
    }

    pub fn is_going_down(&self) -> bool {
        self.is(State::is_going_down)
    }

    pub fn is_waiting_for_reboot(&self) -> bool {
        self.is(State::is_waiting_for_reboot)
    }

    pub fn is_up(&self) -> bool {
        self.is(State::is_up)
    }

    pub fn is_responding(&self) -> bool {
        self.is(State::is_responding)
    }

    pub fn is_heard_from(&self) -> bool {
        self.is(State::is_heard_from)
    }

    /// Slurm has it neither powered down nor on the way there.
    pub fn should_have_instance(&self) -> bool {
        !self.is(State::is_powering_down_or_off) && !self.is_going_down()
    }

    pub fn carries_jobs(&self) -> bool {
        self.slurm.as_ref().is_some_and(Node::carries_jobs)
    }

    pub fn runs_jobs(&self) -> bool {
        self.slurm.as_ref().is_some_and(Node::runs_jobs)
    }

    pub fn reason(&self) -> &str {
        self.slurm.as_ref().and_then(|node| node.reason.as_deref()).unwrap_or_default()
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

    /// By this host's clock; the cloud's own may be another.
    pub fn first_seen(&self, instance: &Instance) -> Timestamp {
        self.first_seen.get(&instance.id).copied().unwrap_or(instance.created)
    }

    /// Slurm's own daemons, or its health check, drained it for what happened on an instance that is gone.
    pub fn has_outlived_drain(&self) -> bool {
        self.is_off_and_drained_for_instance() && self.instances.is_empty()
    }

    /// Nobody looks at such a drain: the instance that it is about has to go, if it has not gone yet.
    fn is_off_and_drained_for_instance(&self) -> bool {
        let drained =
            self.slurm.as_ref().is_some_and(|n| n.is_drained_by_daemons() || n.is_drained_for_health());
        self.elastic && drained && self.is_off() && self.unlisted.is_none()
    }

    /// How Kiln's own drains of this node begin, while its group is paused.
    pub fn pause_reason(&self) -> String {
        format!("{REASON}{} paused until ", self.group)
    }

    pub fn is_drained_for_pause(&self) -> bool {
        self.slurm.as_ref().is_some_and(|n| n.state.is_drained() && n.has_reason(&self.pause_reason()))
    }

    /// Kiln has drained it for this, which Slurm does not know any more.
    pub fn lost_reason(&self) -> Option<&str> {
        let is_lost = self.slurm.as_ref().is_some_and(Node::has_lost_reason);
        self.drained_for.as_deref().filter(|_| is_lost)
    }

    /// Why nothing is to be done about this node, whatever its state.
    pub fn reason_to_leave_alone(&self) -> Option<String> {
        if let Some(kind) = self.request {
            return Some(format!("Kiln is at work on it: {}", kind.word()));
        }
        if let Some(id) = self.rollout {
            return Some(format!("rollout {id} has it"));
        }
        let node = self.slurm.as_ref()?;
        let who = node.reason_by.as_deref();
        let outlived = self.is_off_and_drained_for_instance();
        let reason = node.reason.as_deref().unwrap_or("no reason given");
        let kilns = self.is_drained_for_pause() || self.lost_reason().is_some();
        if node.state.is_drained() && !kilns && !outlived {
            return Some(format!("drained by {}: {reason}", who.unwrap_or("somebody")));
        }
        if let Some(flag) = node.state.taken_out_by() {
            return Some(format!("Slurm has it as {flag}"));
        }
        if node.is_set_down_by_others() && !outlived {
            return Some(format!("set down by {}: {reason}", who.unwrap_or_default()));
        }
        None
    }
}
