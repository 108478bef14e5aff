//! What the store needs from time to time, whether there is a fleet or not.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kiln_wire::NodeNames;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hooks::spool;
use crate::store::{ClockWatch, Store, now};

const PRUNE_EVERY: Duration = Duration::from_secs(3600);

/// Where hooks leave requests, and the fleet file, whose list of nodes says which are taken.
#[derive(Debug, Clone)]
pub struct Spools {
    pub directories: Vec<PathBuf>,
    pub fleet: PathBuf,
}

impl Spools {
    /// Moves requests into the store.
    pub fn pick_up(&self, store: &Store) {
        // Read again each time: it is short, and most of the time there is nothing to pick up.
        let known = NodeNames::beside(&self.fleet).ok();
        if let Err(error) = spool::pick_up(&self.directories, known.as_ref(), store) {
            tracing::error!(error = error.chain(), "cannot pick up the spool");
        }
    }
}

/// Moves requests from the spools into the store and drops old ones, until `stop`.
pub async fn keep(store: Arc<Store>, spools: Spools, every: Duration, stop: CancellationToken) {
    let mut pruned: Option<Instant> = None;
    let mut clock = ClockWatch::default();
    while !stop.is_cancelled() {
        spools.pick_up(&store);
        if clock.was_set_back(now())
            && let Err(error) = store.catch_up()
        {
            tracing::error!(error = error.chain(), "cannot correct times that are yet to come");
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
