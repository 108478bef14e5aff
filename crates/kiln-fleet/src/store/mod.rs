//! The store: requests, events and rollouts in one SQLite file on the state volume.
//!
//! The daemon and administrators' commands open it, each in its own process. Every method is one
//! transaction; what it returned is on the disk.

mod clock;
mod cloud_operations;
mod drains;
mod events;
mod failures;
mod findings;
mod history;
mod instances;
mod keys;
mod notices;
mod requests;
mod rollouts;
mod schema;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::watch;

use crate::error::{Error, Result};

pub use clock::ClockWatch;
pub use findings::FindingRecord;
pub use history::{GroupUse, QueueCount};
pub use instances::KnownInstance;
pub use notices::{Batch, Channel};
pub use requests::{CloudOperation, NewRequest, PowerTimes, Request, RequestKind, RequestState};

pub struct Store {
    connection: Mutex<Connection>,
    /// Counts requests that this process finished or failed.
    settled: watch::Sender<u64>,
    /// The id of the missing instance that the cloud was last asked for.
    asked_last: Mutex<Option<String>>,
}

/// How long another process may hold the store.
const PATIENCE: Duration = Duration::from_secs(10);

impl Store {
    /// Creates the file if it is missing.
    pub fn open(path: &Path) -> Result<Store> {
        let mut connection =
            Connection::open(path).map_err(|source| Error::OpenStore { path: path.into(), source })?;
        let prepared = connection.busy_timeout(PATIENCE).map_err(Error::from).and_then(|()| {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // What was picked up from the spool is gone there.
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            schema::migrate(&mut connection, path)
        });
        match prepared {
            Ok(()) => Ok(Store {
                connection: Mutex::new(connection),
                settled: watch::Sender::new(0),
                asked_last: Mutex::default(),
            }),
            Err(Error::Store(source)) => Err(describe(path, source)),
            Err(other) => Err(other),
        }
    }

    /// Changes whenever this process has finished or failed a request.
    pub fn settled(&self) -> watch::Receiver<u64> {
        self.settled.subscribe()
    }

    /// For whoever asks the cloud for some of many missing instances, and for the next ones later.
    pub(crate) fn asked_last<T>(&self, take: impl FnOnce(&mut Option<String>) -> T) -> T {
        take(&mut self.asked_last.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A transaction that panicked was rolled back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(path: &Path, source: rusqlite::Error) -> Error {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            Error::DamagedStore { path: path.into(), problem: source.to_string() }
        }
        _ => Error::OpenStore { path: path.into(), source },
    }
}

/// Times are kept as milliseconds.
fn millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The present, as exact as it is kept.
pub fn now() -> Timestamp {
    time(millis(Timestamp::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_may_have_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        let first = Store::open(&path).unwrap();
        let second = Store::open(&path).unwrap();
        first.log("n-0", "test", "why", "well").unwrap();
        assert_eq!(second.events(None, 10).unwrap().len(), 1);
    }

    #[test]
    fn a_damaged_store_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        std::fs::write(&path, "this is no database, and long enough to be taken for a header".repeat(100))
            .unwrap();
        let error = Store::open(&path).err().unwrap();
        assert!(matches!(error, Error::DamagedStore { .. }), "{error}");
    }

    #[test]
    fn a_newer_store_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
        let error = Store::open(&path).err().unwrap();
        assert!(error.to_string().contains("newer Kiln (schema 999"), "{error}");
    }

    #[test]
    fn a_store_that_cannot_be_opened_is_reported() {
        let error = Store::open(Path::new("/nonexistent/store.db")).err().unwrap();
        assert!(matches!(error, Error::OpenStore { .. }), "{error}");
    }
}
