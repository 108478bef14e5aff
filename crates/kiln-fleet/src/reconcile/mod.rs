//! The reconciler: looks at Slurm and at the cloud, and mends what does not agree.
//!
//! It takes no input: events only wake it, and every look reads the world anew. If either side cannot be read it acts on
//! nothing. [`plan::rules`] has the table of what it looks for.

mod execute;
mod observe;
mod plan;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kiln_slurm::Slurm;
use tokio::sync::watch;

use crate::control_loop::tasks::Crew;
use crate::error::Result;
use crate::fleet_file::Fleet;
use crate::group_pause;
use crate::store::{Finding, Store, now};

pub use observe::Glimpse;
pub use observe::node::{Observation, Pause, Stray};
pub use plan::rules::{Action, RULES, Times, table};
pub use plan::{Verdict, World, plan};

/// Events come in flocks; one look serves them all.
const FLOCK: Duration = Duration::from_secs(5);

pub struct Reconciler {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    pub fleet: watch::Receiver<Option<Arc<Fleet>>>,
    pub stop: watch::Receiver<bool>,
    /// Where the published bundles are.
    pub share: PathBuf,
}

impl Reconciler {
    /// Until `stop` becomes true.
    pub async fn run(mut self) {
        let mut settled = self.store.settled();
        let mut blind = None;
        let mut crew = Crew::new("cannot reconcile");
        while !*self.stop.borrow() {
            let current = self.fleet.borrow_and_update().clone();
            settled.borrow_and_update();
            let every = match &current {
                Some(fleet) => {
                    let problem = self.look(fleet, &mut crew).await.err().map(|e| e.chain());
                    self.tell(&mut blind, problem);
                    Duration::from_secs(fleet.file.patience.reconcile.max(1))
                }
                None => FLOCK,
            };
            let (mut stop, fleet) = (self.stop.clone(), &mut self.fleet);
            let woken = async {
                tokio::select! {
                    _ = fleet.changed() => {}
                    _ = settled.changed() => tokio::time::sleep(FLOCK.min(every)).await,
                    () = tokio::time::sleep(every) => {}
                }
            };
            tokio::select! {
                () = woken => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        crew.finish().await;
    }

    /// Being blind is told once, and its end.
    fn tell(&self, before: &mut Option<String>, problem: Option<String>) {
        if let Err(error) = self.store.note_look(problem.as_deref()) {
            tracing::error!(error = error.chain(), "cannot note a look");
        }
        if *before == problem {
            return;
        }
        let outcome = problem.clone().unwrap_or_else(|| "sees both again".to_string());
        tracing::warn!(outcome, "reconciler");
        let why = "Slurm and the cloud must both be readable";
        if let Err(error) = self.store.log("", "look", why, &outcome) {
            tracing::error!(error = error.chain(), "cannot write an event");
        }
        *before = problem;
    }

    /// One look at the world and what follows from it. What takes its time does not keep the next look from the others.
    async fn look(&self, fleet: &Arc<Fleet>, crew: &mut Crew) -> Result<()> {
        let world = World::observe(&self.store, &self.slurm, fleet, &self.share).await?;
        self.clear_ended_failures(&world)?;
        let before = self.store.findings()?;
        let at = now();
        let verdicts = plan(&world, &before, &Times::of(&fleet.file), at);
        self.keep(&before, &verdicts, at)?;
        let mut nodes: HashMap<String, Observation> =
            world.nodes.into_iter().map(|o| (o.node.clone(), o)).collect();
        let actor =
            execute::Actor { store: self.store.clone(), slurm: self.slurm.clone(), fleet: fleet.clone() };
        let room = crew.room(fleet.file.concurrency);
        crew.reap();
        for verdict in verdicts.into_iter().filter(|v| v.is_due(at)) {
            if crew.is_busy_with(&verdict.subject) {
                continue;
            }
            let (actor, room) = (actor.clone(), room.clone());
            let (seen, stop) = (nodes.remove(&verdict.subject), self.stop.clone());
            crew.spawn(vec![verdict.subject.clone()], async move {
                // The semaphore is never closed.
                let _permit = room.acquire().await;
                if *stop.borrow() { Ok(()) } else { actor.carry_out(&verdict, seen).await }
            });
        }
        Ok(())
    }

    fn clear_ended_failures(&self, world: &World) -> Result<()> {
        for (group, node) in group_pause::over(&world.nodes, &self.store.failure_records()?) {
            self.store.clear_failures(group)?;
            tracing::info!(group, node, "nodes come up again");
            let why = format!("{node} came into service");
            self.store.log("", &format!("group {group}"), &why, "nodes come up again")?;
        }
        Ok(())
    }

    /// Writes only what changed: most looks find what the last one found.
    fn keep(&self, before: &[Finding], verdicts: &[Verdict], at: Timestamp) -> Result<()> {
        let known: HashMap<(&str, &str), &str> =
            before.iter().map(|f| ((f.subject.as_str(), f.rule.as_str()), f.text.as_str())).collect();
        let same = |v: &Verdict| known.get(&(v.subject.as_str(), v.rule.name)) == Some(&v.text.as_str());
        if before.len() == verdicts.len() && verdicts.iter().all(same) {
            return Ok(());
        }
        let is_new = |v: &&Verdict| !known.contains_key(&(v.subject.as_str(), v.rule.name));
        for new in verdicts.iter().filter(|v| !v.is_early(at)).filter(is_new) {
            tracing::info!(subject = new.subject, rule = new.rule.name, text = new.text, "found");
        }
        let rows: Vec<_> =
            verdicts.iter().map(|v| (v.subject.clone(), v.rule.name, v.text.clone())).collect();
        self.store.set_findings(&rows)
    }
}

/// Looks without acting: what is so now, with the ages that kilnd has seen.
pub async fn look_only(
    store: &Store,
    slurm: &Slurm,
    fleet: &Fleet,
    share: &Path,
) -> Result<(Glimpse, Vec<Verdict>)> {
    let glimpse = Glimpse::catch(store, slurm, fleet, share).await?;
    let verdicts = if glimpse.is_whole() {
        plan(&glimpse.world, &store.findings()?, &Times::of(&fleet.file), now())
    } else {
        Vec::new()
    };
    Ok((glimpse, verdicts))
}
