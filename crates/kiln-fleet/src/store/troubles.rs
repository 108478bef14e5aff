//! Elastic groups that the cloud refused something: how often in a row, and until when they are left alone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::{Store, millis, now, time};
use crate::error::Result;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// In a row.
    pub failures: u32,
    pub paused_until: Option<Timestamp>,
    /// In the cloud's words.
    pub problem: String,
}

impl Trouble {
    pub fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| until > now())
    }
}

impl Store {
    /// By group.
    pub fn troubles(&self) -> Result<BTreeMap<String, Trouble>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare("SELECT grp, failures, paused_until, problem FROM troubles")?;
        let rows = statement.query_map([], |row| {
            let trouble = Trouble {
                failures: row.get(1)?,
                paused_until: row.get::<_, Option<i64>>(2)?.map(time),
                problem: row.get(3)?,
            };
            Ok((row.get(0)?, trouble))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// One more failure of a group. Returns how many there are in a row.
    pub fn add_failure(&self, group: &str, problem: &str) -> Result<u32> {
        let connection = self.lock();
        Ok(connection.query_row(
            "INSERT INTO troubles (grp, failures, problem) VALUES (?1, 1, ?2)
             ON CONFLICT (grp) DO UPDATE SET failures = failures + 1, problem = ?2 RETURNING failures",
            params![group, problem],
            |row| row.get(0),
        )?)
    }

    pub fn pause_group(&self, group: &str, until: Timestamp, problem: &str) -> Result<()> {
        self.lock().execute(
            "INSERT INTO troubles (grp, failures, paused_until, problem) VALUES (?1, 1, ?2, ?3)
             ON CONFLICT (grp) DO UPDATE SET paused_until = ?2, problem = ?3",
            params![group, millis(until), problem],
        )?;
        Ok(())
    }

    /// A success, or the end of a pause. Returns whether there was trouble.
    pub fn clear_trouble(&self, group: &str) -> Result<bool> {
        Ok(self.lock().execute("DELETE FROM troubles WHERE grp = ?", [group])? > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_until_a_success() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        assert_eq!(store.add_failure("gpu", "no host").unwrap(), 1);
        assert_eq!(store.add_failure("gpu", "no host").unwrap(), 2);
        assert!(!store.troubles().unwrap()["gpu"].is_paused());
        store.pause_group("gpu", now() + std::time::Duration::from_secs(60), "quota").unwrap();
        let trouble = &store.troubles().unwrap()["gpu"];
        assert!(trouble.is_paused() && trouble.problem == "quota" && trouble.failures == 2);
        assert!(store.clear_trouble("gpu").unwrap());
        assert!(!store.clear_trouble("gpu").unwrap());
    }
}
