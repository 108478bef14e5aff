//! How kilnd works: every controller observes, plans and executes, over and over, until the daemon is told to stop.

pub mod fleet;
pub mod retry;
pub mod tasks;
pub mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::fleet::Fleet;

/// After a round that failed: observing more often does not help against an outage.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// One concern of the daemon.
pub trait Controller {
    /// For the log.
    const NAME: &'static str;

    /// Observes, plans and executes once.
    fn round(&mut self, fleet: &Arc<Fleet>) -> impl Future<Output = Result<()>> + Send;

    /// Returns when the next round is due. A new fleet file starts one in any case.
    fn wait(&mut self, fleet: Option<&Fleet>) -> impl Future<Output = ()> + Send;

    /// Called after the last round.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Runs one controller.
pub struct ControlLoop {
    pub fleet: watch::Receiver<Option<Arc<Fleet>>>,
    pub stop: CancellationToken,
}

impl ControlLoop {
    pub async fn run<C: Controller>(mut self, mut controller: C) {
        let mut reported = None;
        while !self.stop.is_cancelled() {
            let fleet = self.fleet.borrow_and_update().clone();
            let problem = match &fleet {
                Some(fleet) => controller.round(fleet).await.err().map(|error| error.chain()),
                None => None,
            };
            let pause = if problem.is_some() { AFTER_FAILURE } else { Duration::ZERO };
            report(C::NAME, &mut reported, problem);
            tokio::select! {
                _ = async { tokio::join!(tokio::time::sleep(pause), controller.wait(fleet.as_deref())) } => {}
                Ok(()) = self.fleet.changed() => {}
                () = self.stop.cancelled() => {}
            }
        }
        controller.finish().await;
    }
}

/// An outage is logged once, and its end.
fn report(name: &str, reported: &mut Option<String>, problem: Option<String>) {
    if *reported == problem {
        return;
    }
    if let Some(problem) = &problem {
        tracing::error!(problem, "{name}: waiting");
    } else {
        tracing::info!("{name}: going on");
    }
    *reported = problem;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;

    struct Counting {
        rounds: Arc<AtomicUsize>,
        fails: bool,
    }

    impl Controller for Counting {
        const NAME: &'static str = "counting";

        async fn round(&mut self, _: &Arc<Fleet>) -> Result<()> {
            self.rounds.fetch_add(1, Ordering::Relaxed);
            if self.fails { Err(Error::Refused("no answer".into())) } else { Ok(()) }
        }

        async fn wait(&mut self, _: Option<&Fleet>) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// How many rounds twenty seconds have, with time for a hundred.
    async fn rounds(fails: bool) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        let cloud = r#"{"kind":"local","url":"http://127.0.0.1:1","token":"t"}"#;
        std::fs::write(&path, format!(r#"{{"cluster":"c","cloud":{cloud},"nodes":{{}}}}"#)).unwrap();
        let (_fleets, fleet) = watch::channel(Some(Arc::new(Fleet::read(&path).unwrap())));
        let stop = CancellationToken::new();
        let rounds = Arc::new(AtomicUsize::new(0));
        let control_loop = ControlLoop { fleet, stop: stop.clone() };
        let running = tokio::spawn(control_loop.run(Counting { rounds: rounds.clone(), fails }));
        tokio::time::sleep(Duration::from_secs(20)).await;
        stop.cancel();
        running.await.unwrap();
        rounds.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_fails_has_fewer_rounds() {
        assert_eq!((rounds(false).await / 10, rounds(true).await), (10, 10));
    }
}
