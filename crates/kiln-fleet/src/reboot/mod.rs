//! Carries out one request: look, decide, write down, act, and look until it is done.
//!
//! Ending at any point is harmless: the request stays in the store and the next run looks again.

pub mod plan;

use std::sync::Arc;
use std::time::Duration;

use kiln_cloud::{Instance, InstanceStatus, Rebuild, label};
use kiln_slurm::{BOOT_TIME_ROUNDING, Slurm};
use tokio::sync::watch;

use crate::cloud_view;
use crate::control_loop::retry::before_the_next_try;
use crate::error::{Error, Result, chain};
use crate::fleet_file::{Fleet, FleetNode};
use crate::store::{CloudOperation, Request, RequestKind, Store, now};
use plan::{IMAGE_LABEL, Step, decide};

/// What a request that failed for good leaves in Slurm; a later one that succeeds takes it away.
const FAILED: &str = "kiln: rebuild failed: ";
/// A build that ends in error is tried again, but not for ever.
const BUILDS: u32 = 3;
/// How long a cloud may be out of reach before a person has to know.
const OUTAGE: Duration = Duration::from_secs(15 * 60);
/// A build that takes longer is stuck, and keeps others waiting.
const LONGEST_BUILD: Duration = Duration::from_secs(30 * 60);
/// Of a request that had to wait for the daemon, too.
const LEAST_ATTEMPTS: u32 = 5;
/// A request that had to wait this long may be about a boot that Slurm has given up.
const STALE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(500);
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

pub struct Worker {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    /// Becomes true when the daemon is to end.
    pub stop: watch::Receiver<bool>,
}

/// How one attempt ended.
enum Attempt {
    Done(&'static str),
    /// Worth another attempt after a while.
    Again {
        wait: Option<Duration>,
        problem: String,
    },
    Hopeless(String),
    /// The daemon ends; the request stays in work and is taken up at the next start.
    Stopped,
}

impl Worker {
    pub async fn carry_out(&self, fleet: &Fleet, request: &Request) {
        let attempt = match fleet.file.nodes.get(&request.node) {
            Some(node) => self.attempt(fleet, node, request).await,
            None => Ok(Attempt::Hopeless("not a node of this fleet".into())),
        };
        if let Err(error) = self.settle(request, attempt.unwrap_or_else(|e| triage(&e))).await {
            tracing::error!(
                node = request.node,
                error = error.chain(),
                "cannot write down how a request ended"
            );
        }
    }

    async fn settle(&self, request: &Request, attempt: Attempt) -> Result<()> {
        let node = request.node.as_str();
        let what = request.kind.word();
        match attempt {
            Attempt::Stopped => Ok(()),
            Attempt::Done(outcome) => {
                tracing::info!(node, outcome, "request done");
                self.store.log(node, what, "request", outcome)?;
                self.store.finish(request.id)?;
                self.unmark(node).await;
                Ok(())
            }
            Attempt::Again { wait, problem } => {
                let waited = now().duration_since(request.received).unsigned_abs();
                if waited > OUTAGE && request.attempts >= LEAST_ATTEMPTS {
                    return self.give_up(request, &problem).await;
                }
                let wait = before_the_next_try(backoff(request.attempts), wait);
                tracing::warn!(node, problem, ?wait, "request postponed");
                self.store.log(node, what, &problem, "postponed")?;
                self.store.postpone(request.id, wait, &problem)
            }
            Attempt::Hopeless(problem) => self.give_up(request, &problem).await,
        }
    }

    async fn give_up(&self, request: &Request, problem: &str) -> Result<()> {
        let node = request.node.as_str();
        tracing::error!(node, problem, "request failed");
        self.store.log(node, request.kind.word(), problem, "failed")?;
        self.store.fail(request.id, problem)?;
        let reason = format!("{FAILED}{problem}");
        if let Err(error) = self.slurm.drain(node, &reason).await {
            tracing::error!(node, error = chain(&error), "cannot drain");
            self.store.log(node, "drain", &reason, &chain(&error))?;
        }
        Ok(())
    }

    /// The failure Kiln drained the node for is over.
    async fn unmark(&self, node: &str) {
        match self.slurm.undrain(node, FAILED).await {
            Ok(true) => tracing::info!(node, "back in service after an earlier failure"),
            Ok(false) => {}
            Err(error) => tracing::warn!(node, error = chain(&error), "cannot look after an earlier drain"),
        }
    }

    async fn attempt(&self, fleet: &Fleet, node: &FleetNode, request: &Request) -> Result<Attempt> {
        let name = request.node.as_str();
        let target = match request.kind {
            RequestKind::Rebuild => request.image.clone(),
            _ => self.store.target(name, node.image.as_deref())?,
        };
        let asked = (request.kind == RequestKind::Reboot).then_some(request.received);
        if let Some(asked) = asked {
            // Slurm works out a node's boot time from whole seconds of clock and uptime, up to two too early; one
            // before its request would be no reboot to it. Only a cloud quicker than that has to be waited for.
            let early = BOOT_TIME_ROUNDING.saturating_sub(now().duration_since(asked).unsigned_abs());
            self.pause(early).await;
        }
        if self.is_passed_over(request).await? {
            return Ok(Attempt::Done("passed over: Slurm does not wait for this reboot any more"));
        }
        let start = tokio::time::Instant::now();
        let mut operation = None;
        let mut looked = cloud_view::instances(fleet).await?.remove(name);
        loop {
            if *self.stop.borrow() {
                return Ok(Attempt::Stopped);
            }
            // The decision is about the instance as it is now, not as the list had it.
            if let Some(instance) = &looked {
                looked = found(fleet.cloud.instance(&instance.id).await)?;
            }
            let step = decide(looked.as_ref(), target.as_deref(), asked);
            let (Some(instance), false) = (&looked, step == Step::Create) else {
                return Ok(Attempt::Hopeless(
                    "the cloud has no such instance; `kiln apply` and `kiln configure` make it anew".into(),
                ));
            };
            let known = operation.or(self.earlier_operation(request, instance).await);
            let step = match (step, &target) {
                // A rollout wants a fresh root, also of the image that is there: the node did not come up with it.
                (Step::Nothing, Some(image)) if request.kind == RequestKind::Rebuild && known.is_none() => {
                    Step::Rebuild { image: image.clone() }
                }
                (step, _) => step,
            };
            match (step, known) {
                (Step::Wait, _) if start.elapsed() > LONGEST_BUILD => {
                    return Ok(Attempt::Hopeless(format!(
                        "the instance is {} for {} minutes",
                        instance.status.word(),
                        LONGEST_BUILD.as_secs() / 60
                    )));
                }
                (Step::Wait, _) => self.pause(LOOK_EVERY).await,
                (Step::Nothing, None) => return Ok(Attempt::Done("nothing to do: built since the request")),
                // Done before: asked again, it would be done twice.
                (Step::Nothing | Step::Reboot | Step::Start, Some(operation)) => {
                    return Ok(Attempt::Done(past_tense(operation)));
                }
                (Step::Rebuild { .. }, Some(CloudOperation::Rebuild)) if operation.is_some() => {
                    return Ok(broken_build(request, instance));
                }
                (Step::Rebuild { image }, _) => {
                    self.begin(request, CloudOperation::Rebuild, &image)?;
                    fleet.cloud.rebuild(&instance.id, rebuild(node, instance, image)).await?;
                    operation = Some(CloudOperation::Rebuild);
                }
                (Step::Reboot, None) => {
                    self.begin(request, CloudOperation::Reboot, "")?;
                    fleet.cloud.reboot(&instance.id, true).await?;
                    operation = Some(CloudOperation::Reboot);
                }
                (Step::Start, None) => {
                    self.begin(request, CloudOperation::Start, "")?;
                    fleet.cloud.start(&instance.id).await?;
                    operation = Some(CloudOperation::Start);
                }
                (Step::Create, _) => {}
            }
        }
    }

    fn begin(&self, request: &Request, operation: CloudOperation, image: &str) -> Result<()> {
        tracing::info!(node = request.node, operation = operation.word(), image, "asking the cloud");
        self.store.begin(request.id, operation)?;
        self.store.log(&request.node, operation.word(), image, "begun")
    }

    /// The daemon was away, and the node has gone back to work meanwhile: a reboot now would kill users' jobs.
    async fn is_passed_over(&self, request: &Request) -> Result<bool> {
        let age = now().duration_since(request.received).unsigned_abs();
        if request.kind != RequestKind::Reboot || request.operation.is_some() || age < STALE {
            return Ok(false);
        }
        // While Slurm waits for the boot, the node has a flag that takes it out of service.
        Ok(self.slurm.node(&request.node).await?.is_some_and(|n| n.state.in_service()))
    }

    /// What an earlier attempt at this request, perhaps of a daemon that was ended, is known to have done. A
    /// note alone is no proof: it was made before the cloud was asked.
    async fn earlier_operation(&self, request: &Request, instance: &Instance) -> Option<CloudOperation> {
        let (operation, began) = (request.operation?, request.began?);
        let happened = match operation {
            // By the cloud's clock, which may differ from ours by less than a build takes.
            CloudOperation::Rebuild => {
                instance.built.is_some_and(|built| built >= began - BOOT_TIME_ROUNDING)
            }
            CloudOperation::Create | CloudOperation::Delete => false,
            CloudOperation::Reboot | CloudOperation::Start => {
                let seen = self.slurm.node(&request.node).await.ok().flatten();
                seen.and_then(|n| n.booted).is_some_and(|booted| booted >= began - BOOT_TIME_ROUNDING)
            }
        };
        happened.then_some(operation)
    }

    async fn pause(&self, time: Duration) {
        let mut stop = self.stop.clone();
        let _ = tokio::time::timeout(time, stop.wait_for(|stop| *stop)).await;
    }
}

/// Everything the instance was known by stays with it.
fn rebuild(node: &FleetNode, instance: &Instance, image: String) -> Rebuild {
    let mut labels = instance.labels.clone();
    labels.insert(label::TARGET_IMAGE.into(), image.clone());
    labels.insert(IMAGE_LABEL.into(), image.clone());
    Rebuild { image, user_data: node.user_data.clone(), ssh_key: node.ssh_key.clone(), labels }
}

/// The rebuild was accepted, and still the instance wants one.
fn broken_build(request: &Request, instance: &Instance) -> Attempt {
    let problem = match &instance.status {
        InstanceStatus::Error { reason } => format!("the cloud could not rebuild the instance: {reason}"),
        _ => "the instance does not have the image it was rebuilt to".into(),
    };
    if request.attempts < BUILDS {
        Attempt::Again { wait: None, problem }
    } else {
        Attempt::Hopeless(format!("{problem} (tried {BUILDS} times)"))
    }
}

fn triage(error: &Error) -> Attempt {
    let problem = error.chain();
    match error {
        Error::Cloud(kiln_cloud::Error::Throttled { retry_after }) => {
            Attempt::Again { wait: *retry_after, problem }
        }
        // A conflict: the cloud is busy with the instance on somebody else's account.
        Error::Cloud(kiln_cloud::Error::Transient(_) | kiln_cloud::Error::Conflict(_)) => {
            Attempt::Again { wait: None, problem }
        }
        Error::Cloud(kiln_cloud::Error::Unauthorized(_)) => {
            Attempt::Hopeless(format!("{problem}; `kiln configure` brings valid ones"))
        }
        Error::Cloud(_) => Attempt::Hopeless(problem),
        // The store or the disk: not the node's fault.
        _ => Attempt::Again { wait: None, problem },
    }
}

fn found(answer: kiln_cloud::Result<Instance>) -> kiln_cloud::Result<Option<Instance>> {
    match answer {
        Ok(instance) => Ok(Some(instance)),
        Err(kiln_cloud::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn past_tense(operation: CloudOperation) -> &'static str {
    match operation {
        CloudOperation::Rebuild => "rebuilt",
        CloudOperation::Reboot => "rebooted",
        CloudOperation::Start => "started",
        CloudOperation::Create => "created",
        CloudOperation::Delete => "deleted",
    }
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
    }

    #[test]
    fn reasons_are_kilns_own() {
        assert!(FAILED.starts_with(kiln_slurm::REASON));
    }

    #[test]
    fn errors_are_sorted_by_what_can_be_done() {
        let again = |e| matches!(triage(&Error::Cloud(e)), Attempt::Again { .. });
        assert!(again(kiln_cloud::Error::Throttled { retry_after: None }));
        assert!(again(kiln_cloud::Error::Conflict("being built".into())));
        assert!(!again(kiln_cloud::Error::Invalid("no such image".into())));
        assert!(!again(kiln_cloud::Error::Quota("full".into())));
    }
}
