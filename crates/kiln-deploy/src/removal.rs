//! Nodes that leave the cluster, or are to be replaced, go through Slurm: drained first, deleted when their jobs have
//! ended, and taken back if the file has them again before that.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_image::Event;
use kiln_slurm::LEAVES;
use kiln_spec::{Spec, hostlist};

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::plan::removal::{stays, unwanted};
use crate::plan::{Action, HeldNode, Plan};
use crate::slurm_view::{JobOnNodes, SlurmView};

/// Between two looks at the jobs of nodes that go.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Deployment<'_> {
    /// Slurm is asked only where compute nodes are to go.
    pub(crate) async fn ask_about_removals(&self, observed: &mut Observed) {
        let going: BTreeSet<String> = unwanted(self.spec, observed)
            .iter()
            .filter(|one| one.is_compute())
            .map(|one| one.node.to_string())
            .collect();
        if !going.is_empty() {
            observed.slurm = self.ask_slurm_view(observed, |node| going.contains(node)).await;
        }
    }

    /// Tells Slurm which nodes go. From then on they take no more jobs; a new plan deletes those that have none.
    pub async fn drain(&self, plan: &Plan) -> Result<()> {
        let observed = self.observe().await?;
        for action in &plan.actions {
            self.check_stop()?;
            match action {
                Action::DrainInstances { reason, instances, .. } => {
                    let known = instances.0.iter().filter(|node| node.unknown.is_none());
                    let names: Vec<&str> = known.map(|node| node.node.as_str()).collect();
                    self.set_drain(&observed, &names, reason).await?;
                }
                Action::PowerDownInstances { reason, now, instances, .. } => {
                    let names = hostlist::fold(instances.nodes());
                    let (state, when) = if *now {
                        ("state=power_down_force", "powered down by Slurm")
                    } else {
                        ("state=power_down_asap", "powered down by Slurm when its jobs have ended")
                    };
                    self.update_nodes(&observed, &names, state, Some(reason)).await?;
                    (self.progress)(Event::done(names, when));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A drain of somebody else, with its reason, stays as it is.
    async fn set_drain(&self, observed: &Observed, names: &[&str], reason: &str) -> Result<()> {
        let slurm = self.ask_slurm_view(observed, |_| false).await;
        if let (SlurmView::Unreachable(why), false) = (&slurm, names.is_empty()) {
            return Err(Error::NotReady(format!("Slurm cannot be asked to drain nodes: {why}")));
        }
        let is_new = |name: &&&str| {
            slurm.node(name).is_some_and(|node| !node.is_drained_by_others() && !node.has_reason(LEAVES))
        };
        let new: Vec<&str> = names.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let names = hostlist::fold(new);
        self.update_nodes(observed, &names, "state=drain", Some(reason)).await?;
        (self.progress)(Event::done(names, "drained"));
        Ok(())
    }

    async fn update_nodes(
        &self,
        observed: &Observed,
        names: &str,
        state: &str,
        reason: Option<&str>,
    ) -> Result<()> {
        let (names, reason) =
            (format!("nodename={names}"), reason.map(|reason| format!("reason={LEAVES}{reason}")));
        let words = ["scontrol", "update", &names, state];
        let words: Vec<&str> = words.into_iter().chain(reason.as_deref()).collect();
        self.run_slurm(observed, &words).await.map(drop)
    }

    /// Puts nodes back into service that Kiln has drained to remove them, and that stay. `file`: what the file says now.
    /// Returns why Slurm could not be asked about them.
    pub(crate) async fn return_to_service(&self, file: &Spec, observed: &Observed) -> Result<Option<String>> {
        // One that was replaced is there with its new instance by now.
        let slurm = self.ask_slurm_view(observed, |_| false).await;
        if let SlurmView::Unreachable(why) = slurm {
            return Ok(Some(why));
        }
        self.end_old_reservations(observed, &slurm).await?;
        let back = slurm.nodes().filter(|node| node.state.is_drained() && node.has_reason(LEAVES));
        let back: Vec<&str> =
            back.map(|node| node.name.as_str()).filter(|n| stays(file, observed, n)).collect();
        if back.is_empty() {
            return Ok(None);
        }
        let names = hostlist::fold(back);
        self.update_nodes(observed, &names, "state=resume", None).await?;
        (self.progress)(Event::done(names, "put back into service"));
        Ok(None)
    }

    /// Waits until no job holds the nodes that go. Being asked to stop ends the waiting; the nodes stay drained.
    pub async fn wait_until_free(&self, plan: &Plan) -> Result<()> {
        let held: Vec<String> = plan.held().iter().map(|node| node.node.clone()).collect();
        let names = hostlist::fold(held.iter().map(String::as_str));
        loop {
            self.check_stop()?;
            let observed = self.observe().await?;
            let slurm = self.ask_slurm_view(&observed, |node| held.iter().any(|name| name == node)).await;
            let text = match &slurm {
                SlurmView::Unreachable(why) => format!("Slurm cannot be asked: {why}"),
                SlurmView::NotAsked => return Ok(()),
                SlurmView::Known { jobs, .. } => {
                    if !held.iter().any(|name| slurm.node(name).is_some_and(kiln_slurm::Node::keeps_jobs)) {
                        (self.progress)(Event::done(names, "free of jobs"));
                        return Ok(());
                    }
                    format!("waiting for {}", words(jobs))
                }
            };
            (self.progress)(Event::working(&names, text));
            if self.stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
                return Err(Error::Stopped);
            }
        }
    }
}

/// What keeps a node from going, for people.
pub fn why_held(node: &HeldNode) -> String {
    match &node.unknown {
        Some(why) => format!("{} stays, because Slurm could not be asked for its jobs: {why}", node.node),
        None if node.jobs.is_empty() => format!("{} is drained and waits for its jobs", node.node),
        None => format!("{} is drained and waits for {}", node.node, words(&node.jobs)),
    }
}

/// `job 17 of demo until 2026-11-16 05:10 UTC, job 18 of eve`.
fn words(jobs: &[JobOnNodes]) -> String {
    let word = |job: &JobOnNodes| {
        let until = job.until.map(|at| at.strftime(" until %Y-%m-%d %H:%M UTC at the latest").to_string());
        format!("job {} of {}{}", job.id, job.user, until.unwrap_or_default())
    };
    let all: Vec<String> = jobs.iter().map(word).collect();
    if all.is_empty() { "jobs".into() } else { all.join(", ") }
}
