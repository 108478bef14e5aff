//! kilnd: takes requests out of the store and carries them out, some at a time, and drives rollouts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kiln_slurm::Slurm;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use kiln_wire::paths;

use crate::control_loop::Rounds;
use crate::error::{Error, Result};
use crate::fleet_file::{Fleet, FleetWatch};
use crate::hooks::spool;
use crate::power::Power;
use crate::reboot::Worker;
use crate::reconcile::Reconciler;
use crate::rollout::Rollouts;
use crate::store::Store;

/// Old requests are in nobody's way.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
pub struct DaemonConfig {
    pub store: PathBuf,
    pub spool: PathBuf,
    pub fleet: PathBuf,
    pub slurm: Slurm,
    /// Where the published bundles are.
    pub share: PathBuf,
    /// How often the store is looked at.
    pub poll: Duration,
    /// How often rollouts look at Slurm and the cloud.
    pub rollout_poll: Duration,
}

impl Default for DaemonConfig {
    /// The control node's.
    fn default() -> Self {
        DaemonConfig {
            store: paths::STORE.into(),
            spool: paths::SPOOL.into(),
            fleet: paths::FLEET_FILE.into(),
            slurm: Slurm::default(),
            share: paths::SHARE.into(),
            poll: Duration::from_millis(200),
            rollout_poll: Duration::from_secs(2),
        }
    }
}

/// Until SIGTERM or SIGINT.
pub async fn run(config: DaemonConfig) -> Result<()> {
    let failed = |source| Error::Io { path: "signal handlers".into(), source };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (stop, stopping) = watch::channel(false);
    let signalled = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
        // The receivers see a dropped sender as an error, not as a stop.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = serve(config, stopping) => result,
        () = signalled => Ok(()),
    }
}

/// Until `stopping` becomes true; then what is being asked of the cloud is let finish.
pub async fn serve(config: DaemonConfig, stopping: watch::Receiver<bool>) -> Result<()> {
    let store = Arc::new(Store::open(&config.store)?);
    let taken_up = store.requeue_unfinished()?;
    tracing::info!(store = %config.store.display(), taken_up, "serving");
    let worker =
        Arc::new(Worker { store: store.clone(), slurm: config.slurm.clone(), stop: stopping.clone() });
    let (fleets, fleet_now) = watch::channel(None);
    let reconciler = Reconciler {
        store: store.clone(),
        slurm: config.slurm.clone(),
        fleet: fleet_now.clone(),
        stop: stopping.clone(),
        share: config.share.clone(),
    };
    let reconciling = tokio::spawn(reconciler.run());
    let rounds = |every| Rounds { fleet: fleet_now.clone(), stop: stopping.clone(), every };
    let power = Power::new(store.clone(), config.slurm.clone());
    let powering = tokio::spawn(rounds(config.poll).run(power));
    let rollouts = Rollouts { store: store.clone(), slurm: config.slurm.clone(), stop: stopping.clone() };
    let rollouts = tokio::spawn(rounds(config.rollout_poll).run(rollouts));
    let mut pruned: Option<Instant> = None;
    let mut fleet_watch = FleetWatch::new(config.fleet.clone());
    let mut fleet: Option<Arc<Fleet>> = None;
    let mut working = JoinSet::new();
    let mut stop = stopping.clone();
    while !*stopping.borrow() {
        match fleet_watch.changed() {
            Some(Ok(new)) => {
                tracing::info!(nodes = new.file.nodes.len(), "read the fleet file");
                fleet = Some(Arc::new(new));
                fleets.send_replace(fleet.clone());
            }
            // What was read before still holds.
            Some(Err(error)) => tracing::error!(error = error.chain(), "cannot read the fleet file"),
            None => {}
        }
        if let Err(error) = spool::pick_up(&config.spool, &store) {
            tracing::error!(error = error.chain(), "cannot pick up the spool");
        }
        if pruned.is_none_or(|at| at.elapsed() > PRUNE_EVERY) {
            pruned = Some(Instant::now());
            if let Err(error) = store.prune() {
                tracing::error!(error = error.chain(), "cannot drop old requests");
            }
        }
        while working.try_join_next().is_some() {}
        if let Some(fleet) = &fleet {
            let room = fleet.file.concurrency.max(1).saturating_sub(working.len());
            match store.claim(room) {
                Ok(requests) => {
                    for request in requests {
                        let (worker, fleet) = (worker.clone(), fleet.clone());
                        working.spawn(async move { worker.carry_out(&fleet, &request).await });
                    }
                }
                Err(error) => tracing::error!(error = error.chain(), "cannot read requests"),
            }
        }
        let _ = tokio::time::timeout(config.poll, stop.wait_for(|stop| *stop)).await;
    }
    tracing::info!(working = working.len(), "ending");
    while working.join_next().await.is_some() {}
    let _ = powering.await;
    let _ = rollouts.await;
    let _ = reconciling.await;
    Ok(())
}
