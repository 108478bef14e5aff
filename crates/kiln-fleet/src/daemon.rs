//! kilnd: opens the store, runs the controllers side by side, and serves the dashboard.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_slurm::Slurm;
use kiln_wire::paths;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::control_loop::upkeep::{self, Spools};
use crate::control_loop::{ControlLoop, fleet};
use crate::error::{Error, Result};
use crate::notify::{Notifier, Sender};
use crate::power::Power;
use crate::reboot::Reboots;
use crate::reconcile::Reconciler;
use crate::rollout::Rollouts;
use crate::store::{Channel, Store};
use crate::usage::Usage;
use crate::window::{self, NodeReports, SlurmPages, Window, outside};

#[derive(Debug, Clone)]
pub struct DaemonConfig {
    pub store: PathBuf,
    /// Where hooks leave requests.
    pub spools: Vec<PathBuf>,
    pub fleet: PathBuf,
    pub slurm: Slurm,
    /// Where the published bundles are.
    pub share: PathBuf,
    /// How often the store is read.
    pub poll: Duration,
    /// How often rollouts observe Slurm and the cloud.
    pub rollout_poll: Duration,
    /// Of the dashboard, on the loopback address.
    pub port: u16,
}

impl Default for DaemonConfig {
    /// The paths of a control node.
    fn default() -> Self {
        DaemonConfig {
            store: paths::STORE.into(),
            spools: paths::SPOOLS.map(PathBuf::from).into(),
            fleet: paths::FLEET_FILE.into(),
            slurm: Slurm::default(),
            share: paths::SHARE.into(),
            poll: Duration::from_millis(200),
            rollout_poll: Duration::from_secs(2),
            port: kiln_wire::dashboard::PORT,
        }
    }
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(config: DaemonConfig) -> Result<()> {
    let failed = |source| Error::Io { path: "signal handlers".into(), source };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let stop = CancellationToken::new();
    let mut serving = std::pin::pin!(serve(config, stop.clone()));
    tokio::select! {
        result = &mut serving => return result,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.cancel();
    serving.await
}

/// Serves until `stop`, and then until what was asked of the cloud has been answered.
pub async fn serve(config: DaemonConfig, stop: CancellationToken) -> Result<()> {
    let store = Arc::new(Store::open(&config.store)?);
    let requeued = store.requeue_unowned(&HashSet::new(), Duration::ZERO)?;
    tracing::info!(store = %config.store.display(), requeued, "serving");
    // What has been asked is known before the first decision.
    let spools = Spools { directories: config.spools.clone(), fleet: config.fleet.clone() };
    spools.pick_up(&store);
    let (fleet_sender, fleet_receiver) = watch::channel(None);
    let control_loop = || ControlLoop { fleet: fleet_receiver.clone(), stop: stop.clone() };
    let slurm = || config.slurm.clone();
    let usage = Arc::new(Usage::default());
    let mut loops = JoinSet::new();
    loops.spawn(fleet::publish(config.fleet.clone(), config.poll, fleet_sender, stop.clone()));
    loops.spawn(upkeep::keep(store.clone(), spools, config.poll, stop.clone()));
    loops.spawn(control_loop().run(Reboots::new(store.clone(), slurm(), config.poll, stop.clone())));
    loops.spawn(control_loop().run(Notifier::new(store.clone(), config.poll)));
    for channel in [Channel::Mail, Channel::Webhook] {
        loops.spawn(control_loop().run(Sender::new(store.clone(), channel, config.poll, stop.clone())));
    }
    loops.spawn(control_loop().run(Power::new(store.clone(), slurm(), config.poll)));
    loops.spawn(control_loop().run(Rollouts {
        store: store.clone(),
        slurm: slurm(),
        every: config.rollout_poll,
        stop: stop.clone(),
    }));
    loops.spawn(window::count_queue(store.clone(), slurm(), stop.clone()));
    let reports = Arc::new(NodeReports::default());
    loops.spawn(reports.clone().gather(fleet_receiver.clone(), stop.clone()));
    let (outside_sender, outside_receiver) = watch::channel(None);
    loops.spawn(outside(fleet_receiver.clone(), outside_sender, stop.clone()));
    let window = Window {
        store: store.clone(),
        slurm: slurm(),
        share: config.share.clone(),
        fleet: fleet_receiver.clone(),
        reports,
        past: Mutex::default(),
        usage: usage.clone(),
        pages: SlurmPages::default(),
        outside: outside_receiver,
    };
    loops.spawn(kiln_web::serve(Arc::new(window), config.port, stop.clone()));
    loops.spawn(control_loop().run(Reconciler::new(
        store,
        slurm(),
        config.share.clone(),
        stop.clone(),
        usage,
    )));
    while let Some(ended) = loops.join_next().await {
        // A daemon without one of its controllers would look alive; systemd starts one that has ended.
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    tracing::info!("stopped");
    Ok(())
}
