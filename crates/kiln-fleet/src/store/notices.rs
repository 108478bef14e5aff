//! What people are to be told, until it was sent.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, params};

use super::{Store, millis, now, time};
use crate::error::Result;
use crate::notify::Notice;

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Mail,
    Webhook,
}

impl Channel {
    pub fn word(self) -> &'static str {
        match self {
            Channel::Mail => "mail",
            Channel::Webhook => "webhook",
        }
    }
}

/// Notices that are one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub channel: Channel,
    pub title: String,
    /// Oldest first.
    pub texts: Vec<String>,
    pub ids: Vec<i64>,
    /// When the oldest of them happened.
    pub first: Timestamp,
    pub attempts: u32,
}

/// So long it is known when something was last told; longer than any time between two messages.
const KEPT: Duration = Duration::from_secs(2 * 86_400);

impl Store {
    /// Up to which event people have been told. `None`: nobody is.
    pub fn notified(&self) -> Result<Option<i64>> {
        let connection = self.lock();
        let row = connection.query_row("SELECT event FROM notified", [], |row| row.get(0));
        Ok(row.optional()?)
    }

    /// From now on events are told.
    pub fn begin_notices(&self) -> Result<()> {
        let last = "SELECT 1, COALESCE(MAX(id), 0) FROM events";
        self.lock().execute(&format!("INSERT OR REPLACE INTO notified (id, event) {last}"), [])?;
        Ok(())
    }

    /// Nobody wants to be told any more.
    pub fn end_notices(&self) -> Result<()> {
        if self.notified()?.is_none() {
            return Ok(());
        }
        self.lock().execute_batch("BEGIN; DELETE FROM notified; DELETE FROM notices; COMMIT")?;
        Ok(())
    }

    /// What has the title of something that was told less than `every` ago waits, and is told together.
    pub fn add_notices(
        &self,
        notices: &[(Timestamp, Notice)],
        channels: &[Channel],
        every: Duration,
        last_event: i64,
    ) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for (at, notice) in notices {
            for channel in channels {
                let told: Option<i64> = transaction.query_row(
                    "SELECT MAX(sent) FROM notices WHERE channel = ? AND title = ?",
                    params![channel.word(), notice.title],
                    |row| row.get(0),
                )?;
                let due = told.map_or(now(), |told| now().max(time(told) + every));
                transaction.execute(
                    "INSERT INTO notices (channel, title, text, time, due) VALUES (?, ?, ?, ?, ?)",
                    params![channel.word(), notice.title, notice.text, millis(*at), millis(due)],
                )?;
            }
        }
        transaction.execute("UPDATE notified SET event = ?", [last_event])?;
        transaction.execute("DELETE FROM notices WHERE sent < ?", [millis(now() - KEPT)])?;
        transaction.commit()?;
        Ok(())
    }

    /// What is to be sent now: all that is open of each title of which something is due.
    pub fn due_notices(&self, at: Timestamp) -> Result<Vec<Batch>> {
        let connection = self.lock();
        let mut statement = connection.prepare(
            "SELECT id, channel, title, text, time, attempts FROM notices AS n WHERE sent IS NULL AND EXISTS (
                SELECT 1 FROM notices WHERE channel = n.channel AND title = n.title AND sent IS NULL
                GROUP BY channel HAVING MAX(due) <= ?
             ) ORDER BY id",
        )?;
        let mut rows = statement.query([millis(at)])?;
        let mut batches: Vec<Batch> = Vec::new();
        while let Some(row) = rows.next()? {
            let (id, word, title, text): (i64, String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let channel = if word == Channel::Mail.word() { Channel::Mail } else { Channel::Webhook };
            let known = batches.iter_mut().find(|batch| batch.channel == channel && batch.title == title);
            match known {
                Some(batch) => {
                    batch.texts.push(text);
                    batch.ids.push(id);
                    batch.attempts = batch.attempts.max(row.get(5)?);
                }
                None => batches.push(Batch {
                    channel,
                    title,
                    texts: vec![text],
                    ids: vec![id],
                    first: time(row.get(4)?),
                    attempts: row.get(5)?,
                }),
            }
        }
        Ok(batches)
    }

    pub fn notices_sent(&self, batch: &Batch) -> Result<()> {
        self.change_notices(batch, "UPDATE notices SET sent = ?1 WHERE id = ?2", millis(now()))
    }

    pub fn postpone_notices(&self, batch: &Batch, until: Timestamp) -> Result<()> {
        let change = "UPDATE notices SET due = ?1, attempts = attempts + 1 WHERE id = ?2";
        self.change_notices(batch, change, millis(until))
    }

    fn change_notices(&self, batch: &Batch, change: &str, value: i64) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for id in &batch.ids {
            transaction.execute(change, params![value, id])?;
        }
        transaction.commit()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_wire::notify::Topic;

    use super::*;

    const MINUTES: Duration = Duration::from_secs(900);

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        store.begin_notices().unwrap();
        (dir, store)
    }

    fn add(store: &Store, title: &str, text: &str) {
        let notice = Notice { topic: Topic::Drain, title: title.into(), text: text.into() };
        store.add_notices(&[(now(), notice)], &[Channel::Mail], MINUTES, 0).unwrap();
    }

    fn due(store: &Store, at: Timestamp) -> Vec<(String, Vec<String>)> {
        let batches = store.due_notices(at).unwrap().into_iter();
        batches.map(|batch| (batch.title, batch.texts)).collect()
    }

    #[test]
    fn the_same_is_told_once_and_then_together() {
        let (_dir, store) = store();
        add(&store, "a", "one");
        let first = store.due_notices(now()).unwrap();
        assert_eq!(first[0].texts, ["one"]);
        store.notices_sent(&first[0]).unwrap();
        add(&store, "a", "two");
        add(&store, "a", "three");
        add(&store, "b", "other");
        assert_eq!(due(&store, now()), [("b".into(), vec!["other".to_string()])]);
        let later = due(&store, now() + MINUTES * 2);
        assert_eq!(later[0], ("a".into(), vec!["two".into(), "three".into()]));
    }

    #[test]
    fn what_failed_is_tried_later_with_what_came_meanwhile() {
        let (_dir, store) = store();
        add(&store, "a", "one");
        let batch = store.due_notices(now()).unwrap().remove(0);
        store.postpone_notices(&batch, now() + Duration::from_secs(60)).unwrap();
        assert_eq!(due(&store, now()), []);
        let again = store.due_notices(now() + Duration::from_secs(61)).unwrap().remove(0);
        assert_eq!((again.attempts, again.ids), (1, batch.ids));
    }

    #[test]
    fn events_from_before_are_not_told() {
        let (_dir, store) = store();
        store.log("", "look", "", "old").unwrap();
        store.end_notices().unwrap();
        assert_eq!(store.notified().unwrap(), None);
        store.begin_notices().unwrap();
        let seen = store.notified().unwrap().unwrap();
        assert_eq!(store.events_after(seen, 10).unwrap(), []);
        store.log("", "look", "", "new").unwrap();
        assert_eq!(store.events_after(seen, 10).unwrap()[0].1.outcome, "new");
    }
}
