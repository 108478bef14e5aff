//! Drives rollouts: looks, lets the planner decide, and does what it says.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::fleet_file::Fleet;
use crate::slurm::Slurm;
use crate::store::Store;

/// Until `stop` becomes true.
pub async fn run(
    _store: Arc<Store>,
    _slurm: Slurm,
    _fleet: watch::Receiver<Option<Arc<Fleet>>>,
    mut stop: watch::Receiver<bool>,
    poll: Duration,
) {
    while !*stop.borrow() {
        let _ = tokio::time::timeout(poll, stop.wait_for(|stop| *stop)).await;
    }
}
