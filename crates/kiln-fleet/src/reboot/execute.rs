//! Carries out one request: observes, plans, records and acts until it is done.

use std::sync::Arc;
use std::time::Duration;

use kiln_cloud::retry::once;
use kiln_cloud::{Class, Instance, Rebuild};
use kiln_slurm::{BOOT_TIME_ROUNDING, Slurm};
use kiln_wire::labels;
use tokio_util::sync::CancellationToken;

use super::observe::{self, Observation};
use super::plan::{Action, plan};
use crate::control_loop::retry::{self, Failure};
use crate::error::{Error, Result, chain};
use crate::fleet::Fleet;
use crate::store::{CloudOperation, Request, RequestKind, Store, now};
use kiln_wire::FleetNode;

/// Begins the reason of a node that is drained because its request failed; a later request that succeeds ends that drain.
const FAILED: &str = "kiln: rebuild failed: ";
/// How long a cloud may be out of reach before a person has to know.
const OUTAGE: Duration = Duration::from_secs(15 * 60);
/// How many attempts a request has in any case, also one that had to wait for the daemon. They take seven minutes, however far
/// the clock jumps meanwhile.
const LEAST_ATTEMPTS: u32 = 12;
const POLL: Duration = Duration::from_millis(500);
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Executor {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    pub stop: CancellationToken,
}

/// How one attempt ended.
enum Outcome {
    Done(&'static str),
    /// Ended without the cloud being asked, for this reason.
    CalledOff(String),
    /// Worth another attempt.
    Retry {
        wait: Option<Duration>,
        problem: String,
    },
    Failed(String),
    /// The daemon stops; the request stays open and is taken up at the next start.
    Stopped,
}

impl Executor {
    pub async fn execute(&self, fleet: &Fleet, request: &Request) {
        let attempt = match fleet.file.nodes.get(&request.node) {
            Some(node) => self.attempt(fleet, node, request).await,
            None => Ok(Outcome::Failed("not a node of this fleet".into())),
        };
        if let Err(error) = self.settle(request, attempt.unwrap_or_else(|e| triage(&e))).await {
            tracing::error!(node = request.node, error = error.chain(), "cannot record how a request ended");
        }
    }

    async fn settle(&self, request: &Request, outcome: Outcome) -> Result<()> {
        let node = request.node.as_str();
        let what = request.kind.word();
        match outcome {
            Outcome::Stopped => Ok(()),
            Outcome::Done(outcome) => {
                // Before the request has ended: nobody would come back to it.
                if !self.undrain(node).await {
                    return Ok(());
                }
                tracing::info!(node, outcome, "request done");
                self.store.log(node, what, "request", outcome)?;
                self.store.finish(request.id)
            }
            Outcome::CalledOff(why) => self.call_off(request, &why),
            Outcome::Retry { wait, problem } => {
                if is_overdue(request) {
                    return self.give_up(request, &problem).await;
                }
                self.postpone(request, wait, &problem)
            }
            Outcome::Failed(problem) => self.give_up(request, &problem).await,
        }
    }

    fn postpone(&self, request: &Request, wait: Option<Duration>, problem: &str) -> Result<()> {
        let node = request.node.as_str();
        let wait = retry::delay(backoff(request.attempts), wait);
        tracing::warn!(node, problem, ?wait, "request postponed");
        self.store.log(node, request.kind.word(), problem, "postponed")?;
        self.store.postpone(request.id, wait, problem)
    }

    fn call_off(&self, request: &Request, why: &str) -> Result<()> {
        let node = request.node.as_str();
        tracing::info!(node, why, "request called off");
        self.store.log(node, request.kind.word(), "request", why)?;
        self.store.call_off(request.id, why)
    }

    async fn give_up(&self, request: &Request, problem: &str) -> Result<()> {
        let node = request.node.as_str();
        // Slurm may have put the node back to work while the cloud was out of reach, or somebody else may have drained it.
        if let Ok(Some(why)) = observe::objection(&self.slurm, request).await {
            return self.call_off(request, &format!("{why} ({problem})"));
        }
        // Drained before the request has ended, so that a daemon that is killed in between does it again: no job may start on
        // a node that failed.
        let reason = format!("{FAILED}{problem}");
        if let Err(error) = self.slurm.drain(node, &reason).await {
            let error = chain(&error);
            if !is_overdue(request) {
                return self.postpone(request, None, &format!("{problem}; cannot drain the node: {error}"));
            }
            tracing::error!(node, error, "cannot drain");
            self.store.log(node, "drain", &reason, &error)?;
        }
        tracing::error!(node, problem, "request failed");
        self.store.log(node, request.kind.word(), problem, "failed")?;
        self.store.fail(request.id, problem)
    }

    /// Ends the drain of an earlier failure. `false`: the daemon stops before Slurm could be asked.
    async fn undrain(&self, node: &str) -> bool {
        while !self.stop.is_cancelled() {
            match self.slurm.undrain(node, FAILED).await {
                Ok(true) => tracing::info!(node, "back in service after an earlier failure"),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(node, error = chain(&error), "cannot end an earlier drain");
                    if error.is_unreachable() {
                        self.pause(FIRST_WAIT).await;
                        continue;
                    }
                }
            }
            return true;
        }
        false
    }

    async fn attempt(&self, fleet: &Fleet, node: &FleetNode, request: &Request) -> Result<Outcome> {
        let target = match request.kind {
            RequestKind::Rebuild => request.image.clone(),
            _ => self.store.target(&request.node, node.image.as_deref())?,
        };
        if request.kind == RequestKind::Reboot {
            // Slurm works out a node's boot time from whole seconds of clock and uptime, up to two too early; one
            // before its request would be no reboot to it. Only a cloud quicker than that has to be waited for.
            let age = now().duration_since(request.received).unsigned_abs();
            self.pause(BOOT_TIME_ROUNDING.saturating_sub(age)).await;
        }
        let start = tokio::time::Instant::now();
        let mut begun = None;
        let mut instance = observe::find(&self.store, fleet, &request.node).await?;
        while !self.stop.is_cancelled() {
            instance = observe::refresh(fleet, instance).await?;
            let known = match begun {
                None => self.slurm.node(&request.node).await.ok().flatten(),
                Some(_) => None,
            };
            let seen = Observation {
                instance: instance.clone(),
                begun,
                done_before: instance
                    .as_ref()
                    .filter(|_| begun.is_none())
                    .and_then(|instance| observe::done_before(request, instance, known.as_ref())),
                booted_since: observe::booted_since(request, known.as_ref()),
                elapsed: start.elapsed(),
            };
            let action = plan(request, target.as_deref(), &seen);
            if action.touches_the_node()
                && let Some(why) = observe::objection(&self.slurm, request).await?
            {
                return Ok(Outcome::CalledOff(why));
            }
            // What the cloud does not take now is asked again after another look at Slurm, not by the driver.
            match (action, &instance) {
                (Action::Wait, _) => self.pause(POLL).await,
                (Action::Finish(outcome), _) => return Ok(Outcome::Done(outcome)),
                (Action::Retry(problem), _) => return Ok(Outcome::Retry { wait: None, problem }),
                (Action::Fail(problem), _) => return Ok(Outcome::Failed(problem)),
                (Action::Rebuild { image }, Some(instance)) => {
                    self.store.note_built_before(request.id, instance.built)?;
                    self.begin(request, CloudOperation::Rebuild, &image)?;
                    once(fleet.cloud.rebuild(&instance.id, rebuild(node, instance, image))).await?;
                    begun = Some(CloudOperation::Rebuild);
                }
                (Action::Reboot, Some(instance)) => {
                    self.begin(request, CloudOperation::Reboot, "")?;
                    once(fleet.cloud.reboot(&instance.id, true)).await?;
                    begun = Some(CloudOperation::Reboot);
                }
                (Action::Start, Some(instance)) => {
                    self.begin(request, CloudOperation::Start, "")?;
                    once(fleet.cloud.start(&instance.id)).await?;
                    begun = Some(CloudOperation::Start);
                }
                // The plan asks nothing of an instance that is not there.
                (Action::Rebuild { .. } | Action::Reboot | Action::Start, None) => {}
            }
        }
        Ok(Outcome::Stopped)
    }

    fn begin(&self, request: &Request, operation: CloudOperation, image: &str) -> Result<()> {
        tracing::info!(node = request.node, operation = operation.word(), image, "asking the cloud");
        self.store.begin(request.id, operation)?;
        self.store.log(&request.node, operation.word(), image, "begun")
    }

    async fn pause(&self, time: Duration) {
        self.stop.run_until_cancelled(tokio::time::sleep(time)).await;
    }
}

/// The instance keeps its labels.
fn rebuild(node: &FleetNode, instance: &Instance, image: String) -> Rebuild {
    let mut labels = instance.labels.clone();
    labels.insert(labels::TARGET_IMAGE.into(), image.clone());
    labels.insert(labels::IMAGE.into(), image.clone());
    Rebuild { image, user_data: node.user_data.clone(), ssh_key: node.ssh_key.clone(), labels }
}

fn triage(error: &Error) -> Outcome {
    let Error::Cloud(error) = error else {
        // The store, the disk or Slurm: not the node's fault.
        return Outcome::Retry { wait: None, problem: error.chain() };
    };
    if error.class == Class::NoRights {
        // The credential may be about to be replaced, and the node is well.
        return Outcome::Retry { wait: None, problem: error.chain() };
    }
    match Failure::from(error) {
        Failure::Temporary { wait, problem } => Outcome::Retry { wait, problem },
        Failure::NoRoom(problem) | Failure::Final(problem) => Outcome::Failed(problem),
    }
}

/// Whether it has been tried for long enough.
fn is_overdue(request: &Request) -> bool {
    let waited = now().duration_since(request.received).unsigned_abs();
    waited > OUTAGE && request.attempts >= LEAST_ATTEMPTS
}

fn backoff(attempts: u32) -> Duration {
    FIRST_WAIT.saturating_mul(2u32.saturating_pow(attempts.saturating_sub(1))).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_minute() {
        let waits: Vec<u64> = (1..8).map(|n| backoff(n).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60]);
        let before_the_last: Duration = (1..LEAST_ATTEMPTS).map(backoff).sum();
        assert_eq!(before_the_last.as_secs() / 60, 7);
    }

    #[test]
    fn reasons_are_kilns_own() {
        assert!(FAILED.starts_with(kiln_slurm::REASON));
    }
}
