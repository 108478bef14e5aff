//! What is counted over time: the queue, and how long instances have run. Both are kept for as long as they are shown.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::params;

use super::{Store, millis, time};
use crate::error::Result;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// The longest time that usage is told of.
const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// How many jobs there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueCount {
    pub time: Timestamp,
    pub running: u64,
    pub waiting: u64,
}

/// Of one group in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupUse {
    /// Of all its instances together.
    pub time: Duration,
    /// In millionths of the unit of the file's prices.
    pub cost: u64,
}

impl Store {
    /// Drops those of more than a day ago.
    pub fn add_queue_count(&self, count: QueueCount) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT OR REPLACE INTO queue_counts (time, running, waiting) VALUES (?, ?, ?)",
            params![millis(count.time), count.running.cast_signed(), count.waiting.cast_signed()],
        )?;
        transaction.execute("DELETE FROM queue_counts WHERE time < ?", [millis(count.time - DAY)])?;
        transaction.commit()?;
        Ok(())
    }

    /// Of the last day, oldest first: one for each `step`, with the highest numbers of that time.
    pub fn queue_counts(&self, step: Duration) -> Result<Vec<QueueCount>> {
        let connection = self.lock();
        let mut statement = connection.prepare(
            "SELECT MAX(time), MAX(running), MAX(waiting) FROM queue_counts GROUP BY time / ? ORDER BY time",
        )?;
        let step = i64::try_from(step.as_millis()).unwrap_or(i64::MAX).max(1);
        let rows = statement.query_map([step], |row| {
            let (at, running, waiting): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(QueueCount {
                time: time(at),
                running: running.unsigned_abs(),
                waiting: waiting.unsigned_abs(),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Adds what instances of groups have run up to now. Drops what is older than a month.
    pub fn add_usage(&self, at: Timestamp, used: &BTreeMap<String, GroupUse>) -> Result<()> {
        if used.is_empty() {
            return Ok(());
        }
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for (group, used) in used {
            let passed = i64::try_from(used.time.as_millis()).unwrap_or(i64::MAX);
            transaction.execute(
                "INSERT INTO usage (hour, grp, millis, cost) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (hour, grp) DO UPDATE SET millis = millis + ?3, cost = cost + ?4",
                params![hour(at), group, passed, used.cost.cast_signed()],
            )?;
        }
        transaction.execute("DELETE FROM usage WHERE hour < ?", [hour(at - MONTH)])?;
        transaction.commit()?;
        Ok(())
    }

    /// By group.
    pub fn usage_since(&self, since: Timestamp) -> Result<BTreeMap<String, GroupUse>> {
        let connection = self.lock();
        let mut statement = connection
            .prepare("SELECT grp, SUM(millis), SUM(cost) FROM usage WHERE hour > ? GROUP BY grp")?;
        let rows = statement.query_map([hour(since)], |row| {
            let (passed, cost): (i64, i64) = (row.get(1)?, row.get(2)?);
            let time = Duration::from_millis(passed.unsigned_abs());
            Ok((row.get(0)?, GroupUse { time, cost: cost.unsigned_abs() }))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// The number of the hour.
fn hour(at: Timestamp) -> i64 {
    at.as_second().div_euclid(HOUR.as_secs().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        (dir, store)
    }

    #[test]
    fn a_day_of_the_queue_is_kept_and_told_in_steps() {
        let (dir, store) = store();
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let minutes = 24 * 60 + 30;
        for minute in 0..minutes {
            let count =
                QueueCount { time: start + Duration::from_secs(minute * 60), running: 3, waiting: minute };
            store.add_queue_count(count).unwrap();
        }
        drop(store);
        // As kilnd finds them when it is started again.
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        let all = store.queue_counts(Duration::from_secs(1)).unwrap();
        assert_eq!((all.len(), all[0].waiting), (24 * 60 + 1, 29));
        let fives = store.queue_counts(Duration::from_secs(300)).unwrap();
        assert_eq!(fives.len(), 24 * 12 + 1);
        assert_eq!((fives[1].waiting, fives[1].running), (34, 3), "the longest of five minutes");
    }

    #[test]
    fn usage_is_summed_by_group_and_forgotten_after_a_month() {
        let (_dir, store) = store();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let used = |seconds, cost| {
            BTreeMap::from([("g".to_string(), GroupUse { time: Duration::from_secs(seconds), cost })])
        };
        store.add_usage(now - DAY * 29, &used(100, 1)).unwrap();
        store.add_usage(now - DAY * 3, &used(10, 0)).unwrap();
        store.add_usage(now, &used(1, 5)).unwrap();
        store.add_usage(now, &used(1, 5)).unwrap();
        let since = |days| store.usage_since(now - DAY * days).unwrap()["g"];
        assert_eq!(since(1), GroupUse { time: Duration::from_secs(2), cost: 10 });
        assert_eq!(since(7), GroupUse { time: Duration::from_secs(12), cost: 10 });
        assert_eq!(since(30), GroupUse { time: Duration::from_secs(112), cost: 11 });
        store.add_usage(now + DAY * 2, &used(1, 0)).unwrap();
        assert_eq!(since(365).time, Duration::from_secs(13), "what is older than a month is gone");
    }
}
