//! Rollouts: moving nodes to their target image through Slurm, watched until each has proven itself.
//!
//! An administrator starts, pauses, resumes and aborts them ([`start`]); the daemon drives them. Every round observes once for
//! all open rollouts, then plans and executes one after the other. [`transitions`] has the graph of the steps of a node.

mod execute;
mod licenses;
mod observe;
mod plan;
mod start;
mod transitions;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use kiln_slurm::Slurm;
use tokio_util::sync::CancellationToken;

use crate::control_loop::Controller;
use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::{Store, now};
use execute::Executor;
use observe::Observation;
use plan::{Limits, plan};

pub use start::{abort, list, pause, report, resume, start};

pub struct Rollouts {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    pub every: Duration,
    pub stop: CancellationToken,
}

impl Controller for Rollouts {
    const NAME: &'static str = "rollouts";

    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        let (store, slurm) = (self.store.as_ref(), &self.slurm);
        let open = store.open_rollouts()?;
        if open.is_empty() {
            return Ok(());
        }
        let observation = Observation::read(store, slurm, fleet, &open).await?;
        licenses::take_from_others(store, slurm, &fleet.file, &open, &observation.jobs).await?;
        for mut rollout in open {
            let mut executor = Executor::new(store, slurm, fleet, &mut rollout);
            executor.find_lost_jobs(&observation.jobs)?;
            let seen = observation.nodes_of(slurm, executor.rollout).await?;
            let limits = Limits {
                slurm_waits: Duration::from_secs(fleet.file.resume_timeout),
                concurrency: fleet.file.concurrency,
            };
            for action in plan(executor.rollout, &seen, limits, now()) {
                if self.stop.is_cancelled() {
                    return Ok(());
                }
                executor.execute(action).await?;
            }
        }
        Ok(())
    }

    async fn wait(&mut self, _: Option<&Fleet>) {
        tokio::time::sleep(self.every).await;
    }
}
