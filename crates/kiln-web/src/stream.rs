//! Server-sent events: first everything, then what has changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

use crate::auth::Caller;
use crate::cluster::{Cluster, Problem};
use crate::hub::Seen;
use crate::picture::Picture;
use crate::routes::App;
use crate::view::Failure;

/// So that a proxy, and the other end, know that the connection lives; and how often it is asked whether the session does.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

struct Watcher<C> {
    app: Arc<App<C>>,
    caller: Caller,
    seen: watch::Receiver<Option<Seen>>,
    before: Option<Arc<Picture>>,
    told: Option<Problem>,
}

pub fn stream<C: Cluster>(
    app: Arc<App<C>>,
    caller: Caller,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let seen = app.hub.subscribe();
    let watcher = Watcher { app, caller, seen, before: None, told: None };
    let events = unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok(event), watcher))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE))
}

impl<C: Cluster> Watcher<C> {
    /// `None`: the session is over, or kilnd is.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                changed = self.seen.changed() => changed.ok()?,
                () = self.app.stop.cancelled() => return None,
                () = tokio::time::sleep(SIGN_OF_LIFE) => {}
            }
            if !self.caller.is_still_in(self.app.cluster.as_ref()) {
                return None;
            }
            let Some(seen) = self.seen.borrow_and_update().clone() else { continue };
            if let Some(event) = self.tell(seen) {
                return Some(event);
            }
        }
    }

    /// `None`: nothing new.
    fn tell(&mut self, seen: Seen) -> Option<Event> {
        match seen.picture {
            Ok(picture) => {
                let was_told = self.told.take().is_some();
                let change = match &self.before {
                    Some(before) if !was_told => picture.change_since(before)?,
                    _ => picture.whole(),
                };
                let name = if self.before.is_some() && !was_told { "change" } else { "picture" };
                self.before = Some(picture);
                Event::default().event(name).json_data(change).ok()
            }
            Err(problem) if self.told.as_ref() == Some(&problem) => None,
            Err(problem) => {
                let failure = Failure { error: problem.words().into() };
                self.told = Some(problem);
                Event::default().event("problem").json_data(failure).ok()
            }
        }
    }
}
