//! Work that outlasts the round that started it. Its subjects (nodes, instances) are busy until it is over, so that later
//! rounds leave them alone.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};

use crate::error::Result;

pub struct Tasks {
    /// What the work is, for the log.
    what: &'static str,
    running: JoinSet<()>,
    /// The subjects of each task. One that panics cannot give them back itself.
    subjects: HashMap<Id, Vec<String>>,
    /// With the number it was made for.
    limit: (usize, Arc<Semaphore>),
}

impl Tasks {
    pub fn new(what: &'static str) -> Self {
        let limit = (0, Arc::new(Semaphore::new(0)));
        Tasks { what, running: JoinSet::new(), subjects: HashMap::new(), limit }
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
        self.subjects.values().flatten().any(|busy| busy == subject)
    }

    pub fn spawn(&mut self, subjects: Vec<String>, work: impl Future<Output = Result<()>> + Send + 'static) {
        let (what, about) = (self.what, subjects.clone());
        let task = self.running.spawn(async move {
            if let Err(error) = work.await {
                tracing::error!(subjects = ?about, error = error.chain(), "{what}");
            }
        });
        self.subjects.insert(task.id(), subjects);
    }

    /// Frees the subjects of tasks that have ended.
    pub fn collect_ended(&mut self) {
        while let Some(ended) = self.running.try_join_next_with_id() {
            let id = match ended {
                Ok((id, ())) => id,
                Err(error) => {
                    tracing::error!(%error, what = self.what, "a task panicked");
                    error.id()
                }
            };
            self.subjects.remove(&id);
        }
    }

    /// Waits for all tasks, so that no request to the cloud is cut off.
    pub async fn finish(&mut self) {
        while self.running.join_next().await.is_some() {}
        self.subjects.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_frees_its_subjects_while_others_run() {
        let mut tasks = Tasks::new("test");
        let (_held, until) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(vec!["n-0".into()], async {
            let _ = until.await;
            Ok(())
        });
        tasks.spawn(vec!["n-1".into(), "n-2".into()], async { panic!("as a task that panics") });
        while tasks.is_busy_with("n-1") {
            tokio::task::yield_now().await;
            tasks.collect_ended();
        }
        assert!(tasks.is_busy_with("n-0") && !tasks.is_busy_with("n-2"));
    }
}
