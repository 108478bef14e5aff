//! How long the queue was in the last day. Slurm does not keep it, and a store would be too much for it: it is gone with kilnd.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_slurm::{Slurm, pending};
use kiln_web::view::QueueLength;
use tokio_util::sync::CancellationToken;

use super::SOON;
use crate::store::now;

const EVERY: Duration = Duration::from_secs(60);
/// A day.
const MOST: usize = 24 * 60;

#[derive(Debug, Default)]
pub struct QueueLengths(Mutex<VecDeque<QueueLength>>);

impl QueueLengths {
    /// Oldest first.
    pub fn all(&self) -> Vec<QueueLength> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn add(&self, length: QueueLength) {
        let mut lengths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lengths.len() == MOST {
            lengths.pop_front();
        }
        lengths.push_back(length);
    }

    /// Counts every minute until `stop`. A Slurm that does not answer leaves a gap.
    pub async fn count(self: Arc<Self>, slurm: Slurm, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
            let Ok(Ok(jobs)) = tokio::time::timeout(SOON, slurm.queue()).await else { continue };
            let waiting = jobs.iter().filter(|job| pending::why(job).is_some()).count();
            self.add(QueueLength { time: now(), running: jobs.len() - waiting, waiting });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_kept() {
        let lengths = QueueLengths::default();
        for waiting in 0..MOST + 5 {
            lengths.add(QueueLength { time: now(), running: 0, waiting });
        }
        let all = lengths.all();
        assert_eq!((all.len(), all[0].waiting, all[MOST - 1].waiting), (MOST, 5, MOST + 4));
    }
}
