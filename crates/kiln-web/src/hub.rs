//! Looks at the cluster while somebody watches, and only then: a look asks Slurm and the cloud.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture as _, FutureExt as _};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, Look, Problem};
use crate::picture::Picture;

/// How often the store is read.
const TICK: Duration = Duration::from_secs(1);
/// How often Slurm and the cloud are asked; less often where that takes long.
const PACE: Duration = Duration::from_secs(5);
const REST: u32 = 4;
/// How long a look may be waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was seen, or why nothing was seen; and when Slurm and the cloud are asked again.
#[derive(Debug, Clone)]
pub struct Seen {
    pub picture: Result<Arc<Picture>, Problem>,
    pub good_until: Instant,
}

#[derive(Debug)]
pub struct Hub {
    seen: watch::Sender<Option<Seen>>,
    wanted: Notify,
}

impl Default for Hub {
    fn default() -> Self {
        Hub { seen: watch::Sender::new(None), wanted: Notify::new() }
    }
}

impl Hub {
    /// As long as the receiver lives, somebody watches.
    pub fn subscribe(&self) -> watch::Receiver<Option<Seen>> {
        let receiver = self.seen.subscribe();
        self.wanted.notify_one();
        receiver
    }

    /// A picture of the present: what a watcher would see.
    pub async fn picture(&self) -> Result<Arc<Picture>, Problem> {
        let asked = Instant::now();
        let mut receiver = self.subscribe();
        let fresh = receiver.wait_for(|seen| seen.as_ref().is_some_and(|seen| seen.good_until > asked));
        match tokio::time::timeout(PATIENCE, fresh).await {
            Ok(Ok(seen)) => seen.as_ref().map_or_else(|| Err(no_answer()), |seen| seen.picture.clone()),
            _ => Err(no_answer()),
        }
    }

    /// Looks until `stop`.
    pub async fn watch(&self, cluster: Arc<impl Cluster>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looking = std::pin::pin!(Fuse::terminated());
        let mut last: Option<Result<Look, Problem>> = None;
        let (mut began, mut due) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                look = &mut looking => {
                    due = Instant::now() + PACE.max(began.elapsed() * REST);
                    last = Some(look);
                }
                _ = tick.tick() => {}
            }
            if self.seen.receiver_count() == 0 {
                // What is older than this when somebody comes would be shown as the present.
                last = None;
                looking.set(Fuse::terminated());
                // Somebody may have come and gone meanwhile.
                while self.seen.receiver_count() == 0 {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.wanted.notified() => {}
                    }
                }
                due = Instant::now();
            }
            if looking.is_terminated() && Instant::now() >= due {
                began = Instant::now();
                let cluster = cluster.clone();
                looking.set(async move { cluster.look().await }.fuse());
            }
            if let Some(look) = &last {
                let picture = look.as_ref().map_err(Clone::clone).and_then(|look| {
                    let records = cluster.records()?;
                    Ok(Arc::new(Picture::new(&cluster.name(), look, records)))
                });
                self.seen.send_replace(Some(Seen { picture, good_until: due }));
            }
        }
    }
}

fn no_answer() -> Problem {
    Problem::Unavailable(format!("Slurm and the cloud have not answered within {} s", PATIENCE.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[tokio::test(start_paused = true)]
    async fn nobody_is_asked_while_nobody_watches() {
        let (hub, fake, stop) = (Arc::new(Hub::default()), Arc::new(Fake::new(3)), CancellationToken::new());
        let watching = tokio::spawn({
            let (hub, fake, stop) = (hub.clone(), fake.clone(), stop.clone());
            async move { hub.watch(fake, stop).await }
        });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(fake.looks(), 0);
        assert_eq!(hub.picture().await.unwrap().nodes.len(), 3);
        assert_eq!(hub.picture().await.unwrap().nodes.len(), 3);
        assert_eq!(fake.looks(), 1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(fake.looks(), 1);
        let receiver = hub.subscribe();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!((11..=13).contains(&fake.looks()), "{}", fake.looks());
        drop(receiver);
        stop.cancel();
        watching.await.unwrap();
    }
}
