//! Tells people when something matters. Events are the only source: [`notice`] says which of them are told, the store keeps what is
//! to be sent until it was, and a channel ([`mail`], [`webhook`]) sends it.

mod mail;
mod message;
mod notice;
mod smtp;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use kiln_wire::Version;
use kiln_wire::notify::{NotifyReport, NotifySettings};
use tokio_util::sync::CancellationToken;

use crate::control_loop::Controller;
use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::{Batch, Channel, Store, now};

pub use message::Message;
pub use notice::{Notice, SEES_AGAIN, notice};

/// How often new events are looked for.
const EVERY: Duration = Duration::from_secs(2);
/// At most so many new events are read at once.
const EVENTS: u32 = 1000;
/// Between two attempts; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);
/// What could not be sent for so long is of no use to anybody.
const GIVE_UP: Duration = Duration::from_secs(24 * 3600);

pub struct Notifier {
    store: Arc<Store>,
    every: Duration,
}

impl Notifier {
    pub fn new(store: Arc<Store>, poll: Duration) -> Notifier {
        Notifier { store, every: EVERY.min(poll * 10) }
    }

    /// Turns events that are new since the last round into what is to be sent.
    fn take(&self, settings: &NotifySettings) -> Result<()> {
        let Some(seen) = self.store.notified()? else {
            // What happened before somebody wanted to be told is history.
            return self.store.begin_notices();
        };
        let events = self.store.events_after(seen, EVENTS)?;
        let Some((last, _)) = events.last() else { return Ok(()) };
        let told = |(_, event): &(i64, kiln_wire::Event)| {
            let notice = notice(event).filter(|notice| settings.about.contains(&notice.topic))?;
            Some((event.time, notice))
        };
        let notices: Vec<_> = events.iter().filter_map(told).collect();
        self.store.add_notices(&notices, &channels(settings), Duration::from_secs(settings.every), *last)
    }
}

/// Sends what is due by one channel. A slow server holds up nobody but those who read its messages.
pub struct Sender {
    store: Arc<Store>,
    channel: Channel,
    every: Duration,
    stop: CancellationToken,
}

impl Sender {
    pub fn new(store: Arc<Store>, channel: Channel, poll: Duration, stop: CancellationToken) -> Sender {
        Sender { store, channel, every: EVERY.min(poll * 10), stop }
    }

    async fn send(&self, cluster: &str, settings: &NotifySettings) -> Result<()> {
        let due = self.store.due_notices(now())?.into_iter();
        for batch in due.filter(|batch| batch.channel == self.channel) {
            let message = Message::of(cluster, settings, &batch);
            match deliver(batch.channel, settings, &message).await {
                Ok(()) => self.store.notices_sent(&batch)?,
                Err(problem) => self.failed(&batch, &problem)?,
            }
        }
        Ok(())
    }

    fn failed(&self, batch: &Batch, problem: &str) -> Result<()> {
        let channel = batch.channel.word();
        tracing::warn!(channel, problem, title = batch.title, "cannot be told");
        if now().duration_since(batch.first).as_secs() > GIVE_UP.as_secs().cast_signed() {
            self.store.log("", "notify", problem, &format!("{channel}: given up: {}", batch.title))?;
            return self.store.notices_sent(batch);
        }
        if batch.attempts == 0 {
            self.store.log("", "notify", problem, &format!("{channel}: is tried again: {}", batch.title))?;
        }
        self.store.postpone_notices(batch, now() + wait(batch.attempts))
    }
}

fn wait(attempts: u32) -> Duration {
    LONGEST_WAIT.min(FIRST_WAIT * 2_u32.pow(attempts.min(10)))
}

fn channels(settings: &NotifySettings) -> Vec<Channel> {
    let mail = settings.mail.is_some().then_some(Channel::Mail);
    mail.into_iter().chain(settings.webhook.is_some().then_some(Channel::Webhook)).collect()
}

async fn deliver(
    channel: Channel,
    settings: &NotifySettings,
    message: &Message,
) -> std::result::Result<(), String> {
    match (channel, &settings.mail, &settings.webhook) {
        (Channel::Mail, Some(mail), _) => mail::send(mail, message).await,
        (Channel::Webhook, _, Some(webhook)) => webhook::send(webhook, message).await,
        // It is no longer wanted there.
        _ => Ok(()),
    }
}

/// Sends a message everywhere at once, to see whether messages arrive. `None`: nobody is to be told of anything.
pub async fn test(cluster: &str, settings: Option<&NotifySettings>) -> Option<Vec<NotifyReport>> {
    let settings = settings?;
    let message = Message::test(cluster, settings);
    let mut reports = Vec::new();
    for channel in channels(settings) {
        let problem = deliver(channel, settings, &message).await.err();
        reports.push(NotifyReport { format: Version, channel: channel.word().into(), problem });
    }
    Some(reports)
}

impl Controller for Notifier {
    const NAME: &'static str = "notifications";

    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        match &fleet.file.notify {
            None => self.store.end_notices(),
            Some(settings) => self.take(settings),
        }
    }

    async fn wait(&mut self, _: Option<&Fleet>) {
        tokio::time::sleep(self.every).await;
    }
}

impl Controller for Sender {
    const NAME: &'static str = "messages";

    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        match &fleet.file.notify {
            None => Ok(()),
            Some(settings) => {
                // What is cut off is sent by the next kilnd: better twice than not at all.
                let sent = self.stop.run_until_cancelled(self.send(&fleet.file.cluster, settings));
                sent.await.unwrap_or(Ok(()))
            }
        }
    }

    async fn wait(&mut self, _: Option<&Fleet>) {
        tokio::time::sleep(self.every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer() {
        let waits: Vec<u64> = [0, 1, 2, 6, 100].map(|n| wait(n).as_secs()).into();
        assert_eq!(waits, [30, 60, 120, 1800, 1800]);
    }
}
