//! Does what the planner of rollouts says, and writes it down.

use kiln_slurm::{Node, REASON, Slurm, Submission};

use crate::error::{Error, Result, chain};
use crate::fleet::Fleet;
use crate::rollout::{Action, CANCELLED};
use crate::store::{NewRequest, Request, RequestKind, Store, now};
use kiln_wire::rollout::{NodeStep, Rollout, RolloutNode, Strategy};

pub struct Executor<'a> {
    pub store: &'a Store,
    pub slurm: &'a Slurm,
    pub fleet: &'a Fleet,
    pub rollout: &'a mut Rollout,
}

impl Executor<'_> {
    pub async fn execute(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Step { node, step, remark } => self.step(&node, step, remark),
            Action::HandBack { node } => {
                self.change(&node, |n| n.tries = n.tries.saturating_sub(1))?;
                self.step(&node, NodeStep::Pending, None)
            }
            Action::Submit { node } => self.submit(&node).await,
            Action::SubmitCheck { node } => self.submit_check(&node).await,
            Action::CancelPending { node, job } => {
                // The answer is seen at the next look, whichever way it went.
                self.change(&node, |n| n.remark = Some(CANCELLED.into()))?;
                Ok(self.slurm.cancel_pending(job).await?)
            }
            Action::Cancel { node, job } => {
                // Most often it is over already, which scancel calls an error.
                if let Err(error) = self.slurm.cancel(job).await {
                    tracing::debug!(node, job, error = chain(&error), "cannot cancel");
                }
                Ok(())
            }
            Action::CancelReboot { node, reason } => match self.slurm.cancel_reboot(&node).await {
                Ok(()) => self.step(&node, NodeStep::Skipped { reason }, None),
                // Too late: it is followed to its end.
                Err(_) => Ok(()),
            },
            Action::Drain { node, reason } => {
                let outcome = self.slurm.drain(&node, &reason).await;
                let word = outcome.as_ref().map_or_else(|error| chain(error), |()| "drained".into());
                self.store.log(&node, "drain", &reason, &word)
            }
            Action::Undrain { node } => {
                if self.slurm.undrain(&node, REASON).await? {
                    self.store.log(&node, "resume", "rebuilt; the drain was Kiln's own", "in service")?;
                }
                Ok(())
            }
            Action::TakeBack { node, direct } => self.take_back(&node, direct),
            Action::Become(state) => {
                // An administrator may have been quicker; the next look starts from that.
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

    pub fn step(&mut self, name: &str, step: NodeStep, remark: Option<String>) -> Result<()> {
        let id = self.rollout.id;
        let node = self.node(name)?;
        if node.step != step {
            tracing::info!(rollout = id, node = name, step = step.word(), remark, "rollout step");
            node.since = now();
            node.finished = step.is_over().then_some(node.since);
            if step == NodeStep::Pending {
                node.begun = None;
            }
        }
        let told = matches!(step, NodeStep::Done | NodeStep::Failed { .. }) && node.step != step;
        node.step = step;
        node.remark = remark;
        let node = node.clone();
        self.store.save_rollout_node(id, &node)?;
        if told {
            let why = match &node.step {
                NodeStep::Failed { reason } => reason,
                _ => node.target.as_deref().unwrap_or_default(),
            };
            self.store.log(name, &format!("rollout {id}"), why, node.step.word())?;
        }
        Ok(())
    }

    /// Marks the job, so that it is found again if its number is lost.
    pub fn comment(&self, node: &RolloutNode) -> String {
        let back = if node.rolling_back { "back-" } else { "" };
        format!("kiln-rollout-{}-{back}{}-{}", self.rollout.id, node.tries, node.node)
    }

    async fn submit(&mut self, name: &str) -> Result<()> {
        if let Some(reason) = self.foreign_drain(name).await? {
            return self.step(name, NodeStep::Skipped { reason }, None);
        }
        let wanted = self.fleet.file.nodes.get(name).and_then(|n| n.image.clone());
        self.change(name, |node| {
            // A pending node with a time was announced before: it is the same try.
            if node.begun.is_none() {
                node.tries += 1;
            }
            node.begun = node.begun.filter(|_| node.direct).or_else(|| Some(now()));
            // The reboot hook goes by the fleet file as it is then.
            if !node.rolling_back && wanted.is_some() {
                node.target = wanted;
            }
        })?;
        let node = self.node(name)?.clone();
        if node.direct {
            return self.rebuild_directly(&node);
        }
        let outcome = match self.rollout.options.strategy {
            _ if node.elastic => {
                let reason = format!("{REASON}rollout {}", self.rollout.id);
                self.slurm.power_down_asap(name, &reason).await.map(|()| NodeStep::Draining)
            }
            Strategy::Drain if !self.rollout.options.no_reboot => {
                let reason = format!("{REASON}rollout {}", self.rollout.id);
                self.slurm.reboot_asap(name, &reason).await.map(|()| NodeStep::Draining)
            }
            _ => {
                let reboot = !self.rollout.options.no_reboot || node.rolling_back;
                let submission = self.submission(&node, reboot, self.script(&node));
                self.slurm.submit(&submission).await.map(|job| NodeStep::Submitted { job })
            }
        };
        self.submitted(name, outcome)
    }

    /// A node that somebody drained since the rollout began. A job in the rebuild partition waits for the end of that; what
    /// Slurm reboots or powers down by itself would be put back into service with it.
    async fn foreign_drain(&self, name: &str) -> Result<Option<String>> {
        let drains = self.rollout.options.strategy == Strategy::Drain && !self.rollout.options.no_reboot;
        let node = self.rollout.nodes.iter().find(|n| n.node == name);
        if !node.is_some_and(|node| !node.direct && (node.elastic || drains)) {
            return Ok(None);
        }
        let seen = self.slurm.node(name).await?;
        Ok(seen.as_ref().and_then(Node::foreign_drain))
    }

    async fn submit_check(&mut self, name: &str) -> Result<()> {
        let node = self.node(name)?.clone();
        let check = self.rollout.options.check.clone().unwrap_or_default();
        let submission = self.submission(&node, false, check);
        let outcome = self.slurm.submit(&submission).await.map(|job| NodeStep::Checking { job });
        self.submitted(name, outcome)
    }

    fn submitted(&mut self, name: &str, outcome: kiln_slurm::Result<NodeStep>) -> Result<()> {
        match outcome {
            Ok(step) => self.step(name, step, None),
            // Slurm is away, not against it: the whole rollout waits.
            Err(error @ kiln_slurm::Error::Unreachable { .. }) => Err(error.into()),
            Err(error) => {
                let reason = format!("Slurm did not take it: {}", chain(&error));
                self.step(name, NodeStep::Failed { reason }, None)
            }
        }
    }

    fn submission(&self, node: &RolloutNode, reboot: bool, script: String) -> Submission {
        let options = &self.rollout.options;
        Submission {
            name: options.job_name.replace("NODE", &node.node),
            node: node.node.clone(),
            partition: node.partition.clone(),
            reboot,
            license: self.fleet.file.license.clone(),
            options: options.sbatch_options.clone(),
            // On the way back the job has to reboot the node, which not everybody may.
            user: options.user.clone().filter(|_| !node.rolling_back),
            comment: self.comment(node),
            script,
        }
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

    fn take_back(&mut self, name: &str, direct: bool) -> Result<()> {
        let node = self.node(name)?.clone();
        let Some(image) = node.previous.clone() else {
            return Ok(());
        };
        if let Some(target) = &node.target {
            self.store.pin(name, &image, target)?;
        }
        self.store.log(name, "take back", &node.target.clone().unwrap_or_default(), &image)?;
        let received = now();
        self.change(name, |node| {
            node.previous = node.target.take();
            node.target = Some(image.clone());
            node.rolling_back = true;
            node.finished = None;
            node.since = received;
            node.begun = direct.then_some(received);
            node.direct = direct;
            node.tries = 0;
            node.step = if direct { NodeStep::Rebuilding { job: None } } else { NodeStep::Pending };
            node.remark = None;
        })?;
        if direct {
            let request = NewRequest::new(RequestKind::Rebuild, name, received);
            self.store.enqueue(&[NewRequest { image: Some(image), ..request }])?;
        }
        Ok(())
    }

    /// Slurm can run no job there.
    fn rebuild_directly(&mut self, node: &RolloutNode) -> Result<()> {
        let received = node.begun.unwrap_or_else(now);
        // A daemon that was ended here may have asked for it already.
        let asked = |r: &Request| r.node == node.node && r.received >= received;
        if self.store.latest_requests()?.iter().any(asked) {
            return self.step(&node.node, NodeStep::Rebuilding { job: None }, None);
        }
        let image = node.target.clone().or_else(|| node.previous.clone());
        let request = NewRequest::new(RequestKind::Rebuild, &node.node, received);
        self.store.enqueue(&[NewRequest { image, ..request }])?;
        self.step(&node.node, NodeStep::Rebuilding { job: None }, None)
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut RolloutNode)) -> Result<()> {
        let id = self.rollout.id;
        let node = self.node(name)?;
        change(node);
        let node = node.clone();
        self.store.save_rollout_node(id, &node)
    }

    fn node(&mut self, name: &str) -> Result<&mut RolloutNode> {
        let id = self.rollout.id;
        let found = self.rollout.nodes.iter_mut().find(|n| n.node == name);
        found.ok_or_else(|| Error::StoreContent(format!("rollout {id} has no node {name}")))
    }
}
