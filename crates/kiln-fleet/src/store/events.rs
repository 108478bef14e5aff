//! What happened, for people to read.

use jiff::Timestamp;
use kiln_wire::Event;
use rusqlite::params;

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
        let connection = self.lock();
        let mut statement = connection.prepare(
            "SELECT time, node, what, why, outcome FROM
                (SELECT * FROM events WHERE (?1 IS NULL OR node = ?1) AND time >= ?3 ORDER BY id DESC LIMIT ?2)
             ORDER BY id",
        )?;
        let rows = statement.query_map(params![node, most, millis(since)], |row| {
            Ok(Event {
                time: time(row.get(0)?),
                node: row.get(1)?,
                what: row.get(2)?,
                why: row.get(3)?,
                outcome: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
