//! Only one apply, only one backup, and only one change of users at a time on a node.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};

/// The longest time a bundle may well take: first start of a database and a directory server included.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot open the lock file")]
    Open(#[source] std::io::Error),
    #[error("another {0} has held the lock for {seconds} seconds", seconds = PATIENCE.as_secs())]
    Held(&'static str),
}

/// Held until it is dropped, or the process ends.
pub(crate) struct Lock(#[allow(dead_code)] File);

pub(crate) fn acquire(root: &Path) -> Result<Lock, LockError> {
    acquire_within(root, "apply", PATIENCE)
}

pub(crate) fn acquire_for_backup(root: &Path) -> Result<Lock, LockError> {
    acquire_within(root, "backup", PATIENCE)
}

pub(crate) fn acquire_for_users(root: &Path) -> Result<Lock, LockError> {
    acquire_within(root, "change of users", PATIENCE)
}

fn acquire_within(root: &Path, what: &'static str, patience: Duration) -> Result<Lock, LockError> {
    let directory = root.join("run");
    std::fs::create_dir_all(&directory).map_err(LockError::Open)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(
        directory.join(format!("kiln-{}.lock", what.replace(' ', "-"))),
        flags,
        Mode::from_raw_mode(0o600),
    )
    .map_err(|errno| LockError::Open(errno.into()))?;
    let deadline = Instant::now() + patience;
    loop {
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(File::from(fd))),
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            Err(_) => return Err(LockError::Held(what)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_apply_waits_its_turn() {
        let root = tempfile::tempdir().unwrap();
        let first = acquire(root.path()).unwrap();
        let second = acquire_within(root.path(), "apply", Duration::ZERO);
        assert!(matches!(second, Err(LockError::Held("apply"))));
        assert!(acquire_within(root.path(), "backup", Duration::ZERO).is_ok());
        drop(first);
        // A process that another test is starting just now has the lock, too, until it runs its own program.
        assert!(acquire_within(root.path(), "apply", Duration::from_secs(60)).is_ok());
    }
}
