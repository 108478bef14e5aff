//! Work that takes time and runs beside the loop that ordered it. What a piece of work is about is busy until it is over,
//! over as many looks as that takes.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::error::Result;

pub struct Crew {
    /// What the work is, for the log.
    what: &'static str,
    /// Each returns what it was busy with.
    working: JoinSet<Vec<String>>,
    busy: HashSet<String>,
    /// Made for this many at a time.
    room: (usize, Arc<Semaphore>),
}

impl Crew {
    pub fn new(what: &'static str) -> Self {
        Crew { what, working: JoinSet::new(), busy: HashSet::new(), room: (0, Arc::new(Semaphore::new(0))) }
    }

    /// For work of which only so much is to be done at a time.
    pub fn room(&mut self, at_a_time: usize) -> Arc<Semaphore> {
        let at_a_time = at_a_time.max(1);
        if self.room.0 != at_a_time {
            self.room = (at_a_time, Arc::new(Semaphore::new(at_a_time)));
        }
        self.room.1.clone()
    }

    pub fn is_busy_with(&self, subject: &str) -> bool {
        self.busy.contains(subject)
    }

    pub fn spawn(&mut self, subjects: Vec<String>, work: impl Future<Output = Result<()>> + Send + 'static) {
        self.busy.extend(subjects.iter().cloned());
        let what = self.what;
        self.working.spawn(async move {
            if let Err(error) = work.await {
                tracing::error!(?subjects, error = error.chain(), "{what}");
            }
            subjects
        });
    }

    /// Notes what is over.
    pub fn reap(&mut self) {
        while let Some(ended) = self.working.try_join_next() {
            match ended {
                Ok(subjects) => subjects.iter().for_each(|subject| _ = self.busy.remove(subject)),
                Err(error) => {
                    tracing::error!(%error, "a task ended early");
                    // Whose it was is lost with it; all is looked at again.
                    if self.working.is_empty() {
                        self.busy.clear();
                    }
                }
            }
        }
    }

    /// What is being asked of the cloud is let finish.
    pub async fn finish(&mut self) {
        while self.working.join_next().await.is_some() {}
        self.busy.clear();
    }
}
