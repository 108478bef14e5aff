//! Work that outlasts the round that started it. Its subjects (nodes, instances) are busy until it is over, so that later
//! rounds leave them alone.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::error::Result;

pub struct Tasks {
    /// What the work is, for the log.
    what: &'static str,
    /// Each task returns its subjects.
    running: JoinSet<Vec<String>>,
    busy: HashSet<String>,
    /// With the number it was made for.
    limit: (usize, Arc<Semaphore>),
}

impl Tasks {
    pub fn new(what: &'static str) -> Self {
        Tasks { what, running: JoinSet::new(), busy: HashSet::new(), limit: (0, Arc::new(Semaphore::new(0))) }
    }

    /// A semaphore for work of which only so much may be done at a time, over all rounds.
    pub fn limit(&mut self, at_a_time: usize) -> Arc<Semaphore> {
        let at_a_time = at_a_time.max(1);
        if self.limit.0 != at_a_time {
            self.limit = (at_a_time, Arc::new(Semaphore::new(at_a_time)));
        }
        self.limit.1.clone()
    }

    pub fn is_busy_with(&self, subject: &str) -> bool {
        self.busy.contains(subject)
    }

    pub fn spawn(&mut self, subjects: Vec<String>, work: impl Future<Output = Result<()>> + Send + 'static) {
        self.busy.extend(subjects.iter().cloned());
        let what = self.what;
        self.running.spawn(async move {
            if let Err(error) = work.await {
                tracing::error!(?subjects, error = error.chain(), "{what}");
            }
            subjects
        });
    }

    /// Frees the subjects of tasks that have ended.
    pub fn collect_ended(&mut self) {
        while let Some(ended) = self.running.try_join_next() {
            match ended {
                Ok(subjects) => subjects.iter().for_each(|subject| _ = self.busy.remove(subject)),
                Err(error) => {
                    tracing::error!(%error, "a task panicked");
                    // Its subjects are lost with it, and freed when no other task runs.
                    if self.running.is_empty() {
                        self.busy.clear();
                    }
                }
            }
        }
    }

    /// Waits for all tasks, so that no request to the cloud is cut off.
    pub async fn finish(&mut self) {
        while self.running.join_next().await.is_some() {}
        self.busy.clear();
    }
}
