//! How long work tells of itself, and hears that it is to stop. Printing and signals are the binary's business.

use std::time::Duration;

/// Something happened to one item: a node, an image, a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub item: String,
    pub state: State,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Working,
    Done,
    Failed,
}

/// Called from any task, at any time.
pub type Progress<'a> = &'a (dyn Fn(Event) + Send + Sync);

/// Somebody wants the work to stop.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// For waits that may be given up at any moment. `None`: it was.
pub async fn unless_stopped<T>(stop: Stop<'_>, work: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        while !stop() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        biased;
        () = stopped => None,
        done = work => Some(done),
    }
}

impl Event {
    pub fn working(item: impl Into<String>, text: impl Into<String>) -> Self {
        Event { item: item.into(), state: State::Working, text: text.into() }
    }

    pub fn done(item: impl Into<String>, text: impl Into<String>) -> Self {
        Event { item: item.into(), state: State::Done, text: text.into() }
    }

    pub fn failed(item: impl Into<String>, text: impl Into<String>) -> Self {
        Event { item: item.into(), state: State::Failed, text: text.into() }
    }
}
