//! Reboots and rebuilds nodes that keep their instance, as Slurm's reboot hook and rollouts ask.
//!
//! Slurm asks for a reboot; a node that is to have another image is rebuilt onto it instead. [`plan`] has the table. Nodes
//! of elastic groups lose their instance when they are powered down and get a new one: see [`crate::power`].
//!
//! Stopping at any point is harmless: a request stays open until it is observed to be done, and the next daemon takes it up.

mod execute;
mod observe;
mod plan;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_slurm::Slurm;
use tokio::task::{self, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::control_loop::Controller;
use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::Store;
use execute::Executor;

/// Before a request is taken up again whose end could not be written down.
const AFTER_LOSS: Duration = Duration::from_secs(2);

pub struct Reboots {
    executor: Executor,
    every: Duration,
    running: JoinSet<()>,
    /// Which request each task works on.
    owned: HashMap<task::Id, i64>,
}

impl Reboots {
    pub fn new(store: Arc<Store>, slurm: Slurm, every: Duration, stop: CancellationToken) -> Self {
        Reboots {
            executor: Executor { store, slurm, stop },
            every,
            running: JoinSet::new(),
            owned: HashMap::new(),
        }
    }
}

impl Controller for Reboots {
    const NAME: &'static str = "rebooting and rebuilding nodes";

    /// Takes up as many requests as the cloud is to work on at a time.
    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.owned.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
        let owned = self.owned.values().copied().collect();
        let lost = self.executor.store.requeue_unowned(&owned, AFTER_LOSS)?;
        if lost > 0 {
            tracing::warn!(lost, "requests whose end could not be written down are taken up again");
        }
        let free = fleet.file.concurrency.max(1).saturating_sub(self.running.len());
        for request in self.executor.store.claim(free)? {
            let (executor, fleet) = (self.executor.clone(), fleet.clone());
            let id = request.id;
            let task = self.running.spawn(async move { executor.execute(&fleet, &request).await });
            self.owned.insert(task.id(), id);
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
