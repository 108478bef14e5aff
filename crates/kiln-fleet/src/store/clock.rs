//! A clock that was set back leaves times in the store that are yet to come, and what waits for them would wait as long.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{TransactionBehavior, params};

use super::requests::LONGEST_POSTPONEMENT;
use super::{Store, millis, now};
use crate::error::Result;

/// Clocks are corrected by less all the time.
pub const JITTER: Duration = Duration::from_secs(60);

impl Store {
    /// What seems to have happened in the future has happened now; what is put off for longer than anything can be is due.
    pub fn catch_up(&self) -> Result<()> {
        let at = now();
        let (soon, latest) = (millis(at + JITTER), millis(at + 2 * LONGEST_POSTPONEMENT));
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let wrong = "received > ?2 OR (state = 'queued' AND next_try > ?3)";
        transaction.execute(
            &format!("UPDATE requests SET received = min(received, ?1), next_try = ?1 WHERE {wrong}"),
            params![millis(at), soon, latest],
        )?;
        for (table, column) in [("findings", "since"), ("instances", "first_seen"), ("deeds", "time")] {
            transaction.execute(
                &format!("UPDATE {table} SET {column} = ?1 WHERE {column} > ?2"),
                params![millis(at), soon],
            )?;
        }
        transaction.execute(
            "UPDATE troubles SET last_failure = ?1, paused_until = NULL WHERE last_failure > ?2",
            params![millis(at), soon],
        )?;
        transaction.commit()?;
        Ok(())
    }
}

/// Tells when the clock was set back.
#[derive(Debug, Default)]
pub struct ClockWatch(Option<Timestamp>);

impl ClockWatch {
    /// Also at the first look: it may have happened while nobody watched.
    pub fn was_set_back(&mut self, now: Timestamp) -> bool {
        let before = self.0.replace(now);
        before.is_none_or(|before| now + JITTER < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewRequest, RequestKind};

    #[test]
    fn a_clock_that_is_set_back_is_noticed() {
        let second = |n| Timestamp::from_second(n).unwrap();
        let mut watch = ClockWatch::default();
        let looks = [1000, 1001, 990, 1000, 400, 401].map(|n| watch.was_set_back(second(n)));
        assert_eq!(looks, [true, false, false, false, true, false]);
    }

    #[test]
    fn nothing_waits_for_a_time_that_a_wrong_clock_has_left() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        let in_a_year = now() + Duration::from_secs(365 * 86400);
        store.enqueue(&[NewRequest::new(RequestKind::Resume, "e-0", in_a_year)]).unwrap();
        store.pause_group("e", in_a_year, "quota").unwrap();
        store.lock().execute("UPDATE troubles SET last_failure = ?", [millis(in_a_year)]).unwrap();
        store.catch_up().unwrap();
        let request = &store.power_requests().unwrap()[0];
        assert!(request.received <= now() && request.next_try <= now(), "{request:?}");
        let record = &store.failure_records().unwrap()["e"];
        assert!(!record.is_paused() && record.last_failure <= now(), "{record:?}");
        // What is right stays.
        store.pause_group("e", now() + Duration::from_secs(600), "quota").unwrap();
        store.catch_up().unwrap();
        assert!(store.failure_records().unwrap()["e"].is_paused());
    }
}
