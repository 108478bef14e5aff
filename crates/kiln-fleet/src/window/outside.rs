//! How others on the network may look: what the fleet file says, told when it says something else.

use std::sync::Arc;

use kiln_wire::DashboardSettings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;

/// Most changes of the fleet file are about nodes, and nobody's connection is to end for them.
pub async fn outside(
    mut fleet: watch::Receiver<Option<Arc<Fleet>>>,
    told: watch::Sender<Option<DashboardSettings>>,
    stop: CancellationToken,
) {
    loop {
        let now = fleet.borrow_and_update().as_ref().and_then(|fleet| fleet.file.dashboard.clone());
        told.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
        let changed = stop.run_until_cancelled(fleet.changed()).await;
        if !matches!(changed, Some(Ok(()))) {
            return;
        }
    }
}
