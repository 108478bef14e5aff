//! Reboots and rebuilds nodes that keep their instance, as Slurm's reboot hook and rollouts ask.
//!
//! Slurm asks for a reboot; a node that is to have another image is rebuilt onto it instead. [`plan`] has the table. Nodes
//! of elastic groups lose their instance when they are powered down and get a new one: see [`crate::power`].
//!
//! Stopping at any point is harmless: a request stays open until it is observed to be done, and the next daemon takes it up.

mod execute;
mod observe;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use kiln_slurm::Slurm;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::control_loop::Controller;
use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::Store;
use execute::Executor;

pub struct Reboots {
    executor: Executor,
    every: Duration,
    running: JoinSet<()>,
}

impl Reboots {
    pub fn new(store: Arc<Store>, slurm: Slurm, every: Duration, stop: CancellationToken) -> Self {
        Reboots { executor: Executor { store, slurm, stop }, every, running: JoinSet::new() }
    }
}

impl Controller for Reboots {
    const NAME: &'static str = "rebooting and rebuilding nodes";

    /// Takes up as many requests as the cloud is to work on at a time.
    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        while self.running.try_join_next().is_some() {}
        let free = fleet.file.concurrency.max(1).saturating_sub(self.running.len());
        for request in self.executor.store.claim(free)? {
            let (executor, fleet) = (self.executor.clone(), fleet.clone());
            self.running.spawn(async move { executor.execute(&fleet, &request).await });
        }
        Ok(())
    }

    async fn wait(&mut self, _: Option<&Fleet>) {
        tokio::time::sleep(self.every).await;
    }

    async fn finish(&mut self) {
        while self.running.join_next().await.is_some() {}
    }
}
