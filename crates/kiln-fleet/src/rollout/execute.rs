//! Carries out the plan of a rollout, and records it.

use std::collections::BTreeMap;

use kiln_slurm::{Job, REASON, Slurm, Submission};
use kiln_wire::rollout::{NodeStep, Rollout, RolloutNode, Strategy};

use super::plan::{Action, CANCELLED};
use super::transitions::{Transition, Transitions as _};
use super::turn::{Turn, turn};
use crate::error::{Error, Result, chain};
use crate::fleet::Fleet;
use crate::store::{NewRequest, Request, RequestKind, Store, now};

pub struct Executor<'a> {
    pub store: &'a Store,
    pub slurm: &'a Slurm,
    pub fleet: &'a Fleet,
    pub rollout: &'a mut Rollout,
    /// Why Slurm takes no more jobs in this round.
    full: Option<String>,
    /// How long a job may run, by partition.
    times: BTreeMap<String, String>,
}

/// How long a job may run in a partition without a limit: as long as in Kiln's own by default.
const TIME: &str = "00:30:00";

/// Of sbatch's options.
fn is_constraint(option: &str) -> bool {
    option.starts_with("--constraint") || option.starts_with("-C")
}

impl<'a> Executor<'a> {
    pub fn new(store: &'a Store, slurm: &'a Slurm, fleet: &'a Fleet, rollout: &'a mut Rollout) -> Self {
        Executor { store, slurm, fleet, rollout, full: None, times: BTreeMap::new() }
    }

    pub async fn execute(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Change { node, transition } => self.apply(&node, transition),
            Action::Submit { node } => self.submit(&node).await,
            Action::SubmitCheck { node } => self.submit_check(&node).await,
            Action::CancelPending { node, job } => {
                // Whether it was cancelled in time is observed in the next round.
                self.apply(&node, Transition::Remark(Some(CANCELLED.into())))?;
                Ok(self.slurm.cancel_pending(job).await?)
            }
            Action::Cancel { node, job } => match self.slurm.cancel(job).await {
                // The next round begins with it again.
                Err(error) if error.is_unreachable() => Err(error.into()),
                // Most often it is over already, which scancel calls an error.
                Err(error) => {
                    tracing::debug!(node, job, error = chain(&error), "cannot cancel");
                    Ok(())
                }
                Ok(()) => Ok(()),
            },
            Action::CancelReboot { node, reason } => match self.slurm.cancel_reboot(&node).await {
                Ok(()) => self.apply(&node, Transition::Skip { reason }),
                // Too late: it is followed to its end.
                Err(_) => Ok(()),
            },
            Action::Drain { node, reason } => match self.slurm.drain(&node, &reason).await {
                // The next round drains it. What is recorded as failed without it would get jobs.
                Err(error) if error.is_unreachable() => Err(error.into()),
                outcome => {
                    let word = outcome.as_ref().map_or_else(|error| chain(error), |()| "drained".into());
                    self.store.log(&node, "drain", &reason, &word)
                }
            },
            Action::Undrain { node } => {
                if self.slurm.undrain(&node, REASON).await? {
                    self.store.log(&node, "resume", "rebuilt; the drain was Kiln's own", "in service")?;
                }
                Ok(())
            }
            Action::TakeBack { node, image } => self.take_back(&node, image),
            Action::Become(state) => {
                // An administrator may have changed it meanwhile; the next round starts from that.
                if self.store.change_rollout(self.rollout.id, &self.rollout.state, &state)? {
                    tracing::info!(rollout = self.rollout.id, state = state.message(), "rollout");
                    let what = format!("rollout {}", self.rollout.id);
                    self.store.log("", &what, "", &state.message())?;
                    self.rollout.state = state;
                }
                Ok(())
            }
        }
    }

    /// Changes a node and writes it to the store; the end of a node is an event.
    fn apply(&mut self, name: &str, transition: Transition) -> Result<()> {
        let id = self.rollout.id;
        let node = self.node(name)?;
        let before = node.step.clone();
        node.apply(transition, now())?;
        let node = node.clone();
        self.store.save_rollout_node(id, &node)?;
        if node.step == before {
            return Ok(());
        }
        tracing::info!(
            rollout = id,
            node = name,
            step = node.step.word(),
            remark = node.remark,
            "rollout step"
        );
        let why = match &node.step {
            NodeStep::Failed { reason } => reason,
            NodeStep::Done => node.target.as_deref().unwrap_or_default(),
            _ => return Ok(()),
        };
        self.store.log(name, &format!("rollout {id}"), why, node.step.word())
    }

    /// Finds the jobs of nodes that were being submitted when the daemon was stopped.
    pub fn find_lost_jobs(&mut self, jobs: &[Job]) -> Result<()> {
        let lost: Vec<_> = (self.rollout.nodes.iter())
            .filter(|n| n.step == NodeStep::Pending && n.begun.is_some())
            .map(|n| (n.node.clone(), self.comment(n)))
            .collect();
        for (node, comment) in lost {
            if let Some(job) = jobs.iter().filter(|job| job.comment == comment).map(|job| job.id).max() {
                self.apply(&node, Transition::Queue { job, remark: Some("found again".into()) })?;
            }
        }
        Ok(())
    }

    /// Marks the job, so that it is found again if its number is lost.
    fn comment(&self, node: &RolloutNode) -> String {
        let back = if node.rolling_back { "back-" } else { "" };
        format!("kiln-rollout-{}-{back}{}-{}", self.rollout.id, node.tries, node.node)
    }

    /// Its turn has come: how it is rebuilt is decided now.
    async fn submit(&mut self, name: &str) -> Result<()> {
        let seen = self.slurm.node(name).await?;
        let node = self.node(name)?.clone();
        let direct = match turn(&node, &self.rollout.options, seen.as_ref()) {
            Turn::Slurm => false,
            Turn::Direct => true,
            Turn::Later(why) => return self.put_off(name, why),
            Turn::Skip(reason) => return self.apply(name, Transition::Skip { reason }),
            Turn::Fail(reason) => return self.apply(name, Transition::Fail { reason }),
        };
        let drains = self.rollout.options.strategy == Strategy::Drain && !self.rollout.options.no_reboot;
        let with_job = !direct && !node.elastic && !drains;
        if with_job && let Some(why) = self.full.clone() {
            return self.put_off(name, why);
        }
        let target = self.fleet.file.nodes.get(name).and_then(|n| n.image.clone());
        self.apply(name, Transition::Announce { target, direct })?;
        let node = self.node(name)?.clone();
        if direct {
            return self.rebuild_directly(&node);
        }
        let reason = format!("{REASON}rollout {}", self.rollout.id);
        let outcome = if node.elastic {
            self.slurm.power_down_asap(name, &reason).await.map(|()| Transition::Drain)
        } else if drains {
            self.slurm.reboot_asap(name, &reason).await.map(|()| Transition::Drain)
        } else {
            let reboot = !self.rollout.options.no_reboot || node.rolling_back;
            let submission = self.submission(&node, reboot, self.script(&node)).await?;
            self.slurm.submit(&submission).await.map(|job| Transition::Queue { job, remark: None })
        };
        self.submitted(name, outcome)
    }

    /// The node waits for its turn, for this reason.
    fn put_off(&mut self, name: &str, why: String) -> Result<()> {
        let transition = Transition::HandBack { remark: Some(why) };
        let node = self.node(name)?;
        if node.begun.is_none() && !transition.changes(node) {
            return Ok(());
        }
        self.apply(name, transition)
    }

    async fn submit_check(&mut self, name: &str) -> Result<()> {
        let node = self.node(name)?.clone();
        let check = self.rollout.options.check.clone().unwrap_or_default();
        let submission = self.submission(&node, false, check).await?;
        let outcome = self.slurm.submit(&submission).await.map(|job| Transition::Check { job });
        self.submitted(name, outcome)
    }

    fn submitted(&mut self, name: &str, outcome: kiln_slurm::Result<Transition>) -> Result<()> {
        match outcome {
            Ok(transition) => self.apply(name, transition),
            // Slurm could not be asked: the whole rollout waits.
            Err(error @ kiln_slurm::Error::Unreachable { .. }) => Err(error.into()),
            // It is asked again in the next round, for one job.
            Err(error @ kiln_slurm::Error::Limit { .. }) => {
                let why = format!("Slurm takes no more jobs just now: {}", chain(&error));
                self.full = Some(why.clone());
                match self.node(name)?.step {
                    NodeStep::Pending => self.put_off(name, why),
                    _ => self.apply(name, Transition::Remark(Some(why))),
                }
            }
            Err(error) => {
                let reason = format!("Slurm did not take it: {}", chain(&error));
                self.apply(name, Transition::Fail { reason })
            }
        }
    }

    async fn submission(&mut self, node: &RolloutNode, reboot: bool, script: String) -> Result<Submission> {
        let time = self.time(&node.partition).await?;
        let options = &self.rollout.options;
        let mut own = options.sbatch_options.clone();
        if reboot && !own.iter().any(|option| is_constraint(option)) {
            let feature = self.slurm.release().await?.reboot_constraint();
            own.extend(feature.map(|feature| format!("--constraint={feature}")));
        }
        Ok(Submission {
            name: options.job_name.replace("NODE", &node.node),
            node: node.node.clone(),
            partition: node.partition.clone(),
            reboot,
            time,
            license: self.fleet.file.license.clone(),
            options: own,
            // On the way back the job has to reboot the node, which not everybody may.
            user: options.user.clone().filter(|_| !node.rolling_back),
            comment: self.comment(node),
            script,
        })
    }

    /// How long a job may run: as long as its partition allows.
    async fn time(&mut self, partition: &str) -> Result<String> {
        if let Some(time) = self.times.get(partition) {
            return Ok(time.clone());
        }
        let time = self.slurm.max_time(partition).await?.unwrap_or_else(|| TIME.into());
        self.times.insert(partition.into(), time.clone());
        Ok(time)
    }

    /// The command, then the check. On the way back the check, which may be about the new image, is left out.
    fn script(&self, node: &RolloutNode) -> String {
        let options = &self.rollout.options;
        match &options.check {
            Some(check) if !node.rolling_back => {
                format!("(\n{}\n) || exit $?\n(\n{check}\n)", options.command)
            }
            _ => options.command.clone(),
        }
    }

    fn take_back(&mut self, name: &str, image: String) -> Result<()> {
        let from = self.node(name)?.target.clone();
        if let Some(from) = &from {
            self.store.pin(name, &image, from)?;
        }
        self.store.log(name, "take back", &from.unwrap_or_default(), &image)?;
        self.apply(name, Transition::TakeBack { image })
    }

    /// Rebuilds a node without Slurm, which cannot run a job there.
    fn rebuild_directly(&mut self, node: &RolloutNode) -> Result<()> {
        let received = node.begun.unwrap_or_else(now);
        // A daemon that was stopped here may have asked for it already.
        let asked = |r: &Request| r.node == node.node && r.received >= received;
        if self.store.latest_requests()?.iter().any(asked) {
            return self.apply(&node.node, Transition::Rebuild { job: None });
        }
        let image = node.target.clone().or_else(|| node.previous.clone());
        let request = NewRequest::new(RequestKind::Rebuild, &node.node, received);
        self.store.enqueue(&[NewRequest { image, ..request }])?;
        self.apply(&node.node, Transition::Rebuild { job: None })
    }

    fn node(&mut self, name: &str) -> Result<&mut RolloutNode> {
        let id = self.rollout.id;
        let found = self.rollout.nodes.iter_mut().find(|n| n.node == name);
        found.ok_or_else(|| Error::StoreContent(format!("rollout {id} has no node {name}")))
    }
}
