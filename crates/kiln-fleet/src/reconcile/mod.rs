//! The reconciler: compares Slurm with the cloud and repairs what does not agree.
//!
//! It takes no input: events only wake it, and every round reads both sides again. If either cannot be read, nothing is done.
//! [`plan::rules`] has the table of what may be wrong.

mod execute;
mod observe;
mod plan;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kiln_slurm::Slurm;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::control_loop::Controller;
use crate::control_loop::tasks::Tasks;
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::group_pause;
use crate::notify::SEES_AGAIN;
use crate::store::{FindingRecord, Store, now};
use crate::usage::Usage;

use execute::Subject;
pub use observe::node::{NodeObservation, Pause, Stray};
pub use observe::{Observation, PartialObservation};
pub use plan::rules::{Action, RULES, Times, table};
use plan::stray_subject;
pub use plan::{Finding, brake, plan};

/// Requests are often settled in groups; one round serves them all.
const BATCH: Duration = Duration::from_secs(5);

pub struct Reconciler {
    store: Arc<Store>,
    slurm: Slurm,
    /// Where the published bundles are.
    share: PathBuf,
    stop: CancellationToken,
    /// Changes when a request is finished or has failed.
    settled: watch::Receiver<u64>,
    tasks: Tasks,
    /// Why the last round could not observe both sides.
    problem: Option<String>,
    usage: Arc<Usage>,
}

impl Reconciler {
    pub fn new(
        store: Arc<Store>,
        slurm: Slurm,
        share: PathBuf,
        stop: CancellationToken,
        usage: Arc<Usage>,
    ) -> Self {
        let (settled, tasks) = (store.settled(), Tasks::new("cannot reconcile"));
        Reconciler { store, slurm, share, stop, settled, tasks, problem: None, usage }
    }
}

impl Controller for Reconciler {
    const NAME: &'static str = "reconciling Slurm and the cloud";

    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        self.settled.borrow_and_update();
        let outcome = self.reconcile(fleet).await;
        self.record(outcome.as_ref().err().map(Error::chain))?;
        outcome
    }

    async fn wait(&mut self, fleet: Option<&Fleet>) {
        let every = fleet.map_or(BATCH, |fleet| Duration::from_secs(fleet.file.timing.reconcile.max(1)));
        tokio::select! {
            Ok(()) = self.settled.changed() => tokio::time::sleep(BATCH.min(every)).await,
            () = tokio::time::sleep(every) => {}
        }
    }

    async fn finish(&mut self) {
        self.tasks.finish().await;
    }
}

impl Reconciler {
    /// Records every round, and an event when an outage begins or ends.
    fn record(&mut self, problem: Option<String>) -> Result<()> {
        self.store.note_look(problem.as_deref())?;
        if self.problem != problem {
            let outcome = problem.as_deref().unwrap_or(SEES_AGAIN);
            self.store.log("", "look", "Slurm and the cloud must both be readable", outcome)?;
            self.problem = problem;
        }
        Ok(())
    }

    fn count_instances(&self, observation: &Observation, fleet: &Fleet) -> Result<()> {
        let none = BTreeMap::new();
        let prices = fleet.file.monitoring.as_ref().map_or(&none, |monitoring| &monitoring.prices);
        let nodes = observation.nodes.iter();
        let seen = nodes.flat_map(|o| o.instances.iter().map(|instance| (o.group.as_str(), instance)));
        let added = self.usage.note(Instant::now(), self.since_last_look()?, seen, prices);
        self.store.add_usage(now(), &added)
    }

    /// Of the kilnd before this one. After a longer time nobody knows what was there meanwhile.
    fn since_last_look(&self) -> Result<Duration> {
        const LONGEST: Duration = Duration::from_secs(600);
        let last = self.store.last_look()?.map(|(time, _)| now().duration_since(time));
        let passed = last.and_then(|passed| Duration::try_from(passed).ok());
        Ok(passed.filter(|passed| *passed <= LONGEST).unwrap_or_default())
    }

    /// One round. Actions that take time do not keep the next round from other nodes.
    async fn reconcile(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        let observation = Observation::read(&self.store, &self.slurm, fleet, &self.share).await?;
        self.count_instances(&observation, fleet)?;
        self.clear_ended_failures(&observation)?;
        self.store.note_drains(observation.nodes.iter().filter_map(|node| node.slurm.as_ref()))?;
        let before = self.store.findings()?;
        let at = now();
        let findings = plan(&observation, &before, &Times::of(&fleet.file), at);
        self.keep(&before, &findings, at)?;
        if let Some(problem) = brake(&observation) {
            return Err(Error::Refused(format!("the cloud cannot be relied on: {problem}")));
        }
        let nodes = observation.nodes.into_iter().map(|o| (o.node.clone(), Subject::Node(Box::new(o))));
        let strays = observation.strays.into_iter().map(|s| (stray_subject(&s), Subject::Stray(Box::new(s))));
        let mut subjects: HashMap<String, Subject> = nodes.chain(strays).collect();
        let executor =
            execute::Executor { store: self.store.clone(), slurm: self.slurm.clone(), fleet: fleet.clone() };
        let limit = self.tasks.limit(fleet.file.concurrency);
        self.tasks.collect_ended();
        for finding in findings.into_iter().filter(|v| v.is_due(at)) {
            if self.tasks.is_busy_with(&finding.subject) {
                continue;
            }
            let Some(seen) = subjects.remove(&finding.subject) else { continue };
            let (executor, limit, stop) = (executor.clone(), limit.clone(), self.stop.clone());
            self.tasks.spawn(vec![finding.subject.clone()], async move {
                // The semaphore is never closed.
                let _permit = limit.acquire().await;
                if stop.is_cancelled() { Ok(()) } else { executor.execute(&finding, seen).await }
            });
        }
        Ok(())
    }

    fn clear_ended_failures(&self, observation: &Observation) -> Result<()> {
        for (group, node) in group_pause::recovered(&observation.nodes, &self.store.failure_records()?) {
            self.store.clear_failures(group)?;
            tracing::info!(group, node, "nodes come up again");
            let why = format!("{node} came into service");
            self.store.log("", &format!("group {group}"), &why, "nodes come up again")?;
        }
        Ok(())
    }

    /// Writes only what changed: most rounds find what the last one found.
    fn keep(&self, before: &[FindingRecord], findings: &[Finding], at: Timestamp) -> Result<()> {
        let known: HashMap<(&str, &str), &str> =
            before.iter().map(|f| ((f.subject.as_str(), f.rule.as_str()), f.text.as_str())).collect();
        let same = |v: &Finding| known.get(&(v.subject.as_str(), v.rule.name)) == Some(&v.text.as_str());
        if before.len() == findings.len() && findings.iter().all(same) {
            return Ok(());
        }
        let is_new = |v: &&Finding| !known.contains_key(&(v.subject.as_str(), v.rule.name));
        for new in findings.iter().filter(|v| !v.is_early(at)).filter(is_new) {
            tracing::info!(subject = new.subject, rule = new.rule.name, text = new.text, "found");
        }
        let rows: Vec<_> =
            findings.iter().map(|v| (v.subject.clone(), v.rule.name, v.text.clone())).collect();
        self.store.set_findings(&rows)
    }
}

/// Observes and plans without acting, for people: what is so now, with the ages that kilnd has recorded.
pub async fn inspect(
    store: &Store,
    slurm: &Slurm,
    fleet: &Fleet,
    share: &Path,
) -> Result<(PartialObservation, Vec<Finding>)> {
    let mut partial = PartialObservation::read(store, slurm, fleet, share).await?;
    if !partial.is_whole() {
        return Ok((partial, Vec::new()));
    }
    let findings = plan(&partial.observation, &store.findings()?, &Times::of(&fleet.file), now());
    partial.cloud_problem = brake(&partial.observation);
    if partial.is_whole() {
        return Ok((partial, findings));
    }
    Ok((partial, findings.into_iter().map(Finding::reported_only).collect()))
}
