//! How kilnd works: it looks at the world and does what follows, over and over, until it is told to end.

pub mod retry;
pub mod tasks;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::Result;
use crate::fleet_file::Fleet;

/// Who cannot see the world is not helped by looking more often, and nor is the world.
const AFTER_TROUBLE: Duration = Duration::from_secs(2);

pub trait Look {
    /// For the log.
    const WHAT: &'static str;

    fn look(&mut self, fleet: &Arc<Fleet>) -> impl Future<Output = Result<()>> + Send;

    /// After the last look.
    fn end(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

pub struct Rounds {
    pub fleet: watch::Receiver<Option<Arc<Fleet>>>,
    /// Until it becomes true.
    pub stop: watch::Receiver<bool>,
    pub every: Duration,
}

impl Rounds {
    pub async fn run<L: Look>(mut self, mut looker: L) {
        let mut told = None;
        while !*self.stop.borrow() {
            let current = self.fleet.borrow().clone();
            let problem = match current {
                Some(fleet) => looker.look(&fleet).await.err().map(|error| error.chain()),
                None => None,
            };
            let pause = if problem.is_some() { self.every.max(AFTER_TROUBLE) } else { self.every };
            tell(L::WHAT, &mut told, problem);
            let _ = tokio::time::timeout(pause, self.stop.wait_for(|stop| *stop)).await;
        }
        looker.end().await;
    }
}

/// An outage is told once, and its end.
fn tell(what: &str, told: &mut Option<String>, problem: Option<String>) {
    if *told == problem {
        return;
    }
    if let Some(problem) = &problem {
        tracing::error!(problem, "{what}: waiting");
    } else {
        tracing::info!("{what}: going on");
    }
    *told = problem;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;

    struct Counting {
        looks: Arc<AtomicUsize>,
        blind: bool,
    }

    impl Look for Counting {
        const WHAT: &'static str = "counting";

        async fn look(&mut self, _: &Arc<Fleet>) -> Result<()> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            if self.blind { Err(Error::Refused("cannot see".into())) } else { Ok(()) }
        }
    }

    /// How many looks twenty seconds have, with time for a hundred.
    async fn looks(blind: bool) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        let cloud = r#"{"kind":"local","url":"http://127.0.0.1:1","token":"t"}"#;
        std::fs::write(&path, format!(r#"{{"cluster":"c","cloud":{cloud},"nodes":{{}}}}"#)).unwrap();
        let (_fleets, fleet) = watch::channel(Some(Arc::new(Fleet::read(&path).unwrap())));
        let (end, stop) = watch::channel(false);
        let looks = Arc::new(AtomicUsize::new(0));
        let every = Duration::from_millis(200);
        let running =
            tokio::spawn(Rounds { fleet, stop, every }.run(Counting { looks: looks.clone(), blind }));
        tokio::time::sleep(Duration::from_secs(20)).await;
        end.send_replace(true);
        running.await.unwrap();
        looks.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn who_cannot_see_looks_less_often() {
        assert_eq!((looks(false).await / 10, looks(true).await), (10, 10));
    }
}
