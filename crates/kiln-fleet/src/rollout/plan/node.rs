//! What one node of a rollout needs next. Pure: where it stands and what was observed give its plan.
//!
//! A job that ended well proves nothing by itself: the instance's image and the node's boot, as Slurm saw it,
//! have to agree.

use std::time::Duration;

use jiff::Timestamp;
use kiln_slurm::{BOOT_TIME_ROUNDING, JobState, Node, UNHEALTHY};
use kiln_wire::rollout::{NodeStep, RolloutNode};

use super::super::observe::{GONE, JobObservation, NodeObservation};
use super::super::transitions::Transition;
use crate::store::{Request, RequestState};

/// Slurm is to give up first: it knows best.
const AFTER_SLURM: Duration = Duration::from_secs(60);
/// Between Slurm's yes to a reboot and the flag that shows it.
const GRACE: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePlan {
    Move(Transition),
    Stay,
    /// It is back in service on its image; the check has to be run by a job of its own.
    SubmitCheck,
    /// Only Kiln's own drain keeps it out of service.
    Undrain,
    /// The job did not do what it was for, through no fault of the node.
    Again(String),
    /// The job was cancelled while it waited: the node was not touched.
    Untouched,
    /// Slurm itself ended the job before it did anything: it is submitted again, and that counts no try.
    NotBegun(String),
    Fail {
        reason: String,
        drain: bool,
    },
}

/// What the rollout's options mean for one node.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The node is to get a fresh boot.
    pub reboot: bool,
    /// A check is to be run although the node's reboot came without a job.
    pub check_after: bool,
    /// How long Slurm waits for a node that is being rebuilt.
    pub slurm_waits: Duration,
}

pub fn plan_node(node: &RolloutNode, seen: &NodeObservation, terms: Terms, now: Timestamp) -> NodePlan {
    if let Some(doubt) = &seen.doubt {
        return to(Transition::Remark(Some(doubt.clone())));
    }
    if node.elastic {
        return powered_down(node, seen, now);
    }
    let facts = Facts::new(node, seen, terms);
    if let Some(request) = facts.request.filter(|r| r.state == RequestState::Failed) {
        let reason = request.error.clone().unwrap_or_else(|| "the cloud request failed".into());
        return NodePlan::Fail { reason, drain: false };
    }
    let waited = now.duration_since(node.since).unsigned_abs();
    if seen.first_seen.is_none() && !facts.at_work && is_waited_for_in_vain(node, &facts, waited) {
        return NodePlan::Fail { reason: GONE.into(), drain: false };
    }
    match (node.step.job(), &seen.job) {
        (Some(job), Some(JobObservation::Known { state, reason })) => {
            with_job(job, state, reason, &facts, terms, waited)
        }
        (Some(_), Some(JobObservation::Gone)) if facts.at_work => to(Transition::Rebuild { job: None }),
        (Some(_), Some(JobObservation::Gone)) => {
            NodePlan::Again("Slurm does not know its job any more".into())
        }
        // Nothing was observed.
        (Some(_), None) => NodePlan::Stay,
        (None, _) => without_job(node, &facts, terms, waited),
    }
}

/// Nothing brings back a node without an instance but `kiln up`, which gives it the image that it should have.
fn is_waited_for_in_vain(node: &RolloutNode, facts: &Facts<'_>, waited: Duration) -> bool {
    if node.is_in_work() {
        // Slurm may wait for it for ever: it forgets when it began to, if it is killed at that moment.
        return waited > GRACE;
    }
    // Its job waits. `kiln up` may be replacing the instance just now; a node that Slurm gives up has been without one for longer.
    facts.slurm.is_some_and(|n| n.state.is_down())
}

/// A node of an elastic group is done when the instance it had is gone: whatever comes up after it is made from the
/// target.
fn powered_down(node: &RolloutNode, seen: &NodeObservation, now: Timestamp) -> NodePlan {
    let begun = node.begun.unwrap_or(node.since);
    if seen.first_seen.is_none_or(|first| first >= begun) {
        return to(Transition::Finish);
    }
    let leaving = seen.slurm.as_ref().is_some_and(|n| n.state.is_losing_instance());
    let asked = seen.request.as_ref().is_some_and(|r| r.received >= begun && r.is_open());
    if leaving || asked || now.duration_since(node.since).unsigned_abs() < GRACE {
        return to(Transition::Drain);
    }
    NodePlan::Again("Slurm did not power it down".into())
}

struct Facts<'a> {
    request: Option<&'a Request>,
    /// Why the node was left alone after all.
    called_off: Option<&'a str>,
    slurm: Option<&'a Node>,
    /// The cloud is at work on the instance, or about to be.
    at_work: bool,
    /// The instance is as it should be.
    rebuilt: bool,
    /// Slurm has seen it boot since.
    registered: bool,
    in_service: bool,
    /// Slurm does not wait for it any more.
    given_up: bool,
}

impl<'a> Facts<'a> {
    fn new(node: &RolloutNode, seen: &'a NodeObservation, terms: Terms) -> Self {
        let begun = node.begun.unwrap_or(node.since) - BOOT_TIME_ROUNDING;
        let of_this_try = |r: &&Request| r.received >= begun;
        let request = seen.request.as_ref().filter(of_this_try).filter(|r| r.called_off().is_none());
        let called_off = seen.request.as_ref().filter(|r| r.received >= begun + BOOT_TIME_ROUNDING);
        let slurm = seen.slurm.as_ref();
        let booted = slurm.and_then(|n| n.booted);
        let at_work = seen.building || request.is_some_and(Request::is_open);
        let rebuilt = match &node.target {
            _ if !terms.reboot => true,
            Some(target) if node.previous.as_ref() != Some(target) => seen.image.as_ref() == Some(target),
            // The image was right before: a boot is all there is to see.
            _ => request.is_some_and(|r| r.state == RequestState::Done) || booted.is_some_and(|b| b >= begun),
        };
        let since = request.and_then(|r| r.began).map_or(begun, |began| began - BOOT_TIME_ROUNDING);
        Facts {
            request,
            called_off: called_off.and_then(Request::called_off),
            slurm,
            at_work,
            given_up: slurm.is_some_and(Node::is_given_up),
            rebuilt: rebuilt && !at_work && (seen.active || !terms.reboot),
            registered: !terms.reboot || booted.is_some_and(|booted| booted >= since),
            // A drain of somebody else does not matter here; the node itself answers.
            in_service: slurm
                .is_some_and(|n| n.state.in_service() || (n.is_drained_by_others() && !n.state.is_down())),
        }
    }
}

fn with_job(
    job: u64,
    state: &JobState,
    reason: &str,
    facts: &Facts<'_>,
    terms: Terms,
    waited: Duration,
) -> NodePlan {
    let some = Some(job);
    match state {
        JobState::Pending => to(Transition::Queue { job, remark: Some(format!("waits: {reason}")) }),
        _ if facts.at_work => to(Transition::Rebuild { job: some }),
        JobState::Configuring | JobState::Running if !facts.rebuilt => match facts.request {
            Some(_) if is_overdue(facts, terms, waited) => did_not_return(facts, terms),
            Some(_) => to(Transition::Rebuild { job: some }),
            None => to(Transition::Queue { job, remark: None }),
        },
        JobState::Running if facts.registered => to(Transition::Check { job }),
        JobState::Completed if !facts.rebuilt => NodePlan::Again(
            "its job ran without a rebuild, as happens when slurmctld is restarted at the wrong moment"
                .into(),
        ),
        JobState::Completed if facts.registered && facts.in_service => to(Transition::Finish),
        JobState::Cancelled if facts.request.is_none() => NodePlan::Untouched,
        JobState::Cancelled => NodePlan::Again("its job was cancelled".into()),
        JobState::Preempted if facts.request.is_none() => {
            NodePlan::NotBegun(format!("job {job} was preempted before its turn"))
        }
        JobState::Preempted if facts.in_service && facts.registered => {
            NodePlan::Again("its job was preempted".into())
        }
        JobState::NodeFail if facts.in_service && (facts.registered || facts.request.is_none()) => {
            NodePlan::Again("Slurm lost the node while its job ran".into())
        }
        // A Slurm that was killed while it waited for the boot has forgotten since when, and waits for ever.
        JobState::Configuring | JobState::Completed | JobState::NodeFail | JobState::Preempted
            if is_overdue(facts, terms, waited) =>
        {
            did_not_return(facts, terms)
        }
        JobState::Configuring
        | JobState::Running
        | JobState::Completed
        | JobState::NodeFail
        | JobState::Preempted => to(Transition::Boot { job: some }),
        JobState::TimedOut => job_failed(job, "ran out of time", state),
        JobState::Failed => job_failed(job, "failed: its command or check did not succeed", state),
        JobState::Other(_) => job_failed(job, "did not end well", state),
    }
}

fn job_failed(job: u64, what: &str, state: &JobState) -> NodePlan {
    NodePlan::Fail { reason: format!("job {job} {what} ({state})"), drain: true }
}

fn without_job(node: &RolloutNode, facts: &Facts<'_>, terms: Terms, waited: Duration) -> NodePlan {
    let reboot_is_due = facts.slurm.is_some_and(|n| n.state.is_waiting_for_reboot());
    // A node that is not well is put back by its own health check.
    let drained_by_kiln = facts.slurm.is_some_and(|n| n.is_drained_by_kiln() && !n.is_drained_for_health());
    if facts.at_work {
        return to(Transition::Rebuild { job: None });
    }
    if let Some(why) = facts.called_off {
        return NodePlan::Again(why.to_string());
    }
    if !facts.rebuilt {
        return match (&node.step, facts.request) {
            (NodeStep::Draining, None) if reboot_is_due || waited < GRACE => to(Transition::Drain),
            (NodeStep::Draining, None) => NodePlan::Again("Slurm did not call the reboot hook".into()),
            (_, Some(_)) | (NodeStep::Rebuilding { .. }, _) if waited < GRACE => NodePlan::Stay,
            _ => NodePlan::Again("it was rebooted without a rebuild".into()),
        };
    }
    if facts.registered && facts.in_service {
        return if terms.check_after { NodePlan::SubmitCheck } else { to(Transition::Finish) };
    }
    // Slurm itself ends the drain that came with its reboot.
    if facts.registered && drained_by_kiln && !reboot_is_due && waited > GRACE {
        return NodePlan::Undrain;
    }
    if is_overdue(facts, terms, waited) {
        return did_not_return(facts, terms);
    }
    to(Transition::Boot { job: None })
}

/// A node that the cloud took long to build has as much time to boot as any other, though Slurm has given it up: it
/// comes back by itself.
fn is_overdue(facts: &Facts<'_>, terms: Terms, waited: Duration) -> bool {
    let patience = if facts.given_up { terms.slurm_waits } else { terms.slurm_waits + AFTER_SLURM };
    waited > patience
}

/// In words that fit a reason in Slurm.
fn did_not_return(facts: &Facts<'_>, terms: Terms) -> NodePlan {
    if let Some(node) = facts.slurm.filter(|node| facts.rebuilt && node.is_drained_for_health()) {
        // It is drained already, until its health check finds it well.
        let why =
            node.reason.as_deref().and_then(|reason| reason.strip_prefix(UNHEALTHY)).unwrap_or_default();
        return NodePlan::Fail { reason: format!("it was rebuilt and is not well: {why}"), drain: false };
    }
    let seconds = terms.slurm_waits.as_secs();
    let what = if facts.rebuilt { "it was rebuilt but did" } else { "it was not rebuilt and did" };
    NodePlan::Fail {
        reason: format!(
            "{what} not come back to Slurm within {seconds} s: see `kiln console`, then `kiln rebuild` it again"
        ),
        drain: true,
    }
}

fn to(transition: Transition) -> NodePlan {
    NodePlan::Move(transition)
}
