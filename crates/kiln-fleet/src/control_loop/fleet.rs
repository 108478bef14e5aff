//! Gives every controller the fleet file as it is now.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fleet::{Fleet, FleetWatch};

/// Sends the fleet whenever its file has changed, until `stop`. A file that cannot be read leaves the one before in force.
pub async fn publish(
    path: PathBuf,
    every: Duration,
    fleet: watch::Sender<Option<Arc<Fleet>>>,
    stop: CancellationToken,
) {
    let mut file = FleetWatch::new(path);
    while !stop.is_cancelled() {
        match file.changed() {
            Some(Ok(new)) => {
                tracing::info!(nodes = new.file.nodes.len(), "read the fleet file");
                fleet.send_replace(Some(Arc::new(new)));
            }
            Some(Err(error)) => tracing::error!(error = error.chain(), "cannot read the fleet file"),
            None => {}
        }
        stop.run_until_cancelled(tokio::time::sleep(every)).await;
    }
}
