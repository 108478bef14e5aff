//! What the store needs from time to time, whether there is a fleet or not.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hooks::spool;
use crate::store::Store;

const PRUNE_EVERY: Duration = Duration::from_secs(3600);

/// Moves requests from the spool into the store and drops old ones, until `stop`.
pub async fn keep(store: Arc<Store>, spool: PathBuf, every: Duration, stop: CancellationToken) {
    let mut pruned: Option<Instant> = None;
    while !stop.is_cancelled() {
        if let Err(error) = spool::pick_up(&spool, &store) {
            tracing::error!(error = error.chain(), "cannot pick up the spool");
        }
        if pruned.is_none_or(|at| at.elapsed() > PRUNE_EVERY) {
            pruned = Some(Instant::now());
            if let Err(error) = store.prune() {
                tracing::error!(error = error.chain(), "cannot drop old requests");
            }
        }
        stop.run_until_cancelled(tokio::time::sleep(every)).await;
    }
}
