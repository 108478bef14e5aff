//! The queue and the hours of instances, over time.

use std::sync::Arc;
use std::time::Duration;

use kiln_slurm::{Slurm, pending};
use kiln_web::view::{GroupUsage, QueueLength, UsageReport, Used};
use kiln_wire::FleetFile;
use tokio_util::sync::CancellationToken;

use super::SOON;
use crate::error::Result;
use crate::store::{GroupUse, QueueCount, Store, now};

const MINUTE: Duration = Duration::from_secs(60);
/// What is drawn on a page has no room for more.
const STEP: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(86_400);

/// Counts jobs every minute until `stop`: Slurm does not keep how long its queue was. A Slurm that does not answer leaves a gap.
pub async fn count_queue(store: Arc<Store>, slurm: Slurm, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(MINUTE)).await.is_some() {
        let Ok(Ok(jobs)) = tokio::time::timeout(SOON, slurm.queue()).await else { continue };
        let waiting = jobs.iter().filter(|job| pending::why(job).is_some()).count();
        let running = jobs.len() - waiting;
        let count = QueueCount { time: now(), running: running as u64, waiting: waiting as u64 };
        if let Err(error) = store.add_queue_count(count) {
            tracing::warn!(%error, "the length of the queue cannot be kept");
        }
    }
}

/// Of the last day, oldest first.
pub fn queue(store: &Store, step: Duration) -> Result<Vec<QueueLength>> {
    let length = |count: QueueCount| QueueLength {
        time: count.time,
        running: usize::try_from(count.running).unwrap_or(usize::MAX),
        waiting: usize::try_from(count.waiting).unwrap_or(usize::MAX),
    };
    Ok(store.queue_counts(step)?.into_iter().map(length).collect())
}

/// Every minute.
pub fn whole_queue(store: &Store) -> Result<Vec<QueueLength>> {
    queue(store, MINUTE)
}

pub fn seen(store: &Store, file: &FleetFile) -> Result<UsageReport> {
    let at = now();
    let (day, week, month) =
        (store.usage_since(at - DAY)?, store.usage_since(at - DAY * 7)?, store.usage_since(at - DAY * 30)?);
    let has_prices = file.monitoring.as_ref().is_some_and(|monitoring| !monitoring.prices.is_empty());
    let used = |found: Option<&GroupUse>| {
        let used = found.copied().unwrap_or_default();
        Used { seconds: used.time.as_secs(), cost_millionths: has_prices.then_some(used.cost) }
    };
    // What has run in a shorter time has run in the longest, too.
    let groups = month.iter().map(|(name, last)| GroupUsage {
        group: name.clone(),
        day: used(day.get(name)),
        week: used(week.get(name)),
        month: used(Some(last)),
    });
    Ok(UsageReport { queue: queue(store, STEP)?, usage: groups.collect() })
}
