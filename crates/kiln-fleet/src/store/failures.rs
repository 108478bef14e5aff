//! Elastic groups whose nodes fail to come up: how often in a row, and until when the group is paused. The table keeps its
//! first name, `troubles`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_wire::health::FailureRecord;
use rusqlite::params;

use super::{Store, millis, now, time};
use crate::error::Result;

impl Store {
    /// By group.
    pub fn failure_records(&self) -> Result<BTreeMap<String, FailureRecord>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare("SELECT grp, failures, paused_until, problem, last_failure FROM troubles")?;
        let rows = statement.query_map([], |row| {
            let record = FailureRecord {
                failures: row.get(1)?,
                paused_until: row.get::<_, Option<i64>>(2)?.map(time),
                problem: row.get(3)?,
                last_failure: time(row.get(4)?),
            };
            Ok((row.get(0)?, record))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Nodes of a group failed. Returns how many did in a row.
    pub fn add_failures(&self, group: &str, nodes: usize, problem: &str) -> Result<u32> {
        let connection = self.lock();
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        Ok(connection.query_row(
            "INSERT INTO troubles (grp, failures, problem, last_failure) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (grp) DO UPDATE SET failures = failures + ?2, problem = ?3, last_failure = ?4
             RETURNING failures",
            params![group, nodes, problem, millis(now())],
            |row| row.get(0),
        )?)
    }

    pub fn pause_group(&self, group: &str, until: Timestamp, problem: &str) -> Result<()> {
        self.lock().execute(
            "INSERT INTO troubles (grp, failures, paused_until, problem, last_failure) VALUES (?1, 1, ?2, ?3, ?4)
             ON CONFLICT (grp) DO UPDATE SET paused_until = ?2, problem = ?3, last_failure = ?4",
            params![group, millis(until), problem, millis(now())],
        )?;
        Ok(())
    }

    /// A success. Returns whether there were failures.
    pub fn clear_failures(&self, group: &str) -> Result<bool> {
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
        assert_eq!(store.add_failures("gpu", 1, "no host").unwrap(), 1);
        assert_eq!(store.add_failures("gpu", 3, "no host").unwrap(), 4);
        assert!(!store.failure_records().unwrap()["gpu"].is_paused());
        store.pause_group("gpu", now() + std::time::Duration::from_secs(60), "quota").unwrap();
        let record = &store.failure_records().unwrap()["gpu"];
        assert!(record.is_paused() && record.problem == "quota" && record.failures == 4);
        assert!(store.clear_failures("gpu").unwrap());
        assert!(!store.clear_failures("gpu").unwrap());
    }
}
