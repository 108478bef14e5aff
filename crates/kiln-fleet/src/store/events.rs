//! What happened, for people to read.

use jiff::Timestamp;
use kiln_wire::Event;
use rusqlite::{Row, params};

use super::{Store, millis, now, time};
use crate::error::Result;

/// Older ones are dropped as new ones come.
const KEPT: i64 = 50_000;

impl Store {
    pub fn log(&self, node: &str, what: &str, why: &str, outcome: &str) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT INTO events (time, node, what, why, outcome) VALUES (?, ?, ?, ?, ?)",
            params![millis(now()), node, what, why, outcome],
        )?;
        transaction.execute("DELETE FROM events WHERE id <= last_insert_rowid() - ?", [KEPT])?;
        transaction.commit()?;
        Ok(())
    }

    /// The newest, oldest of them first; of one node or of all.
    pub fn events(&self, node: Option<&str>, most: u32) -> Result<Vec<Event>> {
        self.events_since(node, Timestamp::UNIX_EPOCH, most)
    }

    pub fn events_since(&self, node: Option<&str>, since: Timestamp, most: u32) -> Result<Vec<Event>> {
        let events = self.numbered_events(node, since, None, most)?;
        Ok(events.into_iter().rev().map(|(_, event)| event).collect())
    }

    /// With their numbers, newest first; `before`: only those with a smaller one.
    pub fn numbered_events(
        &self,
        node: Option<&str>,
        since: Timestamp,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<(i64, Event)>> {
        let connection = self.lock();
        let mut statement = connection.prepare(
            "SELECT id, time, node, what, why, outcome FROM events
             WHERE (?1 IS NULL OR node = ?1) AND time >= ?3 AND (?4 IS NULL OR id < ?4) ORDER BY id DESC LIMIT ?2",
        )?;
        let rows = statement.query_map(params![node, most, millis(since), before], numbered)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// With their numbers, oldest first: those that came after that one.
    pub fn events_after(&self, id: i64, most: u32) -> Result<Vec<(i64, Event)>> {
        let connection = self.lock();
        let mut statement = connection.prepare(
            "SELECT id, time, node, what, why, outcome FROM events WHERE id > ? ORDER BY id LIMIT ?",
        )?;
        let rows = statement.query_map(params![id, most], numbered)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The number of the newest: how many there were.
    pub fn last_event(&self) -> Result<u64> {
        let last = self
            .lock()
            .query_row("SELECT coalesce(max(id), 0) FROM events", [], |row| row.get::<_, i64>(0))?;
        Ok(last.unsigned_abs())
    }
}

/// A row with the columns `id, time, node, what, why, outcome`.
fn numbered(row: &Row<'_>) -> rusqlite::Result<(i64, Event)> {
    let event = Event {
        time: time(row.get(1)?),
        node: row.get(2)?,
        what: row.get(3)?,
        why: row.get(4)?,
        outcome: row.get(5)?,
    };
    Ok((row.get(0)?, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_page_by_page() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        for number in 1..=5 {
            store.log(if number % 2 == 0 { "n-0" } else { "" }, &number.to_string(), "", "").unwrap();
        }
        let ids = |node, before, most| {
            let events = store.numbered_events(node, Timestamp::UNIX_EPOCH, before, most).unwrap();
            events.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(ids(None, None, 2), [5, 4]);
        assert_eq!(ids(None, Some(4), 2), [3, 2]);
        assert_eq!(ids(Some("n-0"), None, 9), [4, 2]);
        assert_eq!(store.last_event().unwrap(), 5);
        let oldest_first = store.events(None, 3).unwrap();
        assert_eq!(oldest_first.iter().map(|e| e.what.as_str()).collect::<Vec<_>>(), ["3", "4", "5"]);
    }
}
