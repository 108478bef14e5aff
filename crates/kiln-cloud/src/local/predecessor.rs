//! A daemon of an older Kiln, which serves a root and does not listen on its socket.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::SOCKET;

/// Tells it to end, which it does when nothing is under way; its instances run on. Waits for that, and not for ever: the next
/// daemon says who is in its way.
pub async fn end(root: &Path) {
    // One that listens there is busy, and none of an older Kiln.
    if UnixStream::connect(root.join(SOCKET)).is_ok() {
        return;
    }
    let Some(pid) = of(root) else { return };
    tracing::info!(pid = pid.as_raw_nonzero(), "a daemon of an older Kiln is told to end");
    let _ = kill_process(pid, Signal::TERM);
    for _ in 0..500 {
        if of(root).is_none() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The process that has this root's lock, if it is what it should be. In a copy of a root the file names a process as well,
/// which has no lock on the copy.
fn of(root: &Path) -> Option<Pid> {
    let path = root.join("daemon.lock");
    let file = File::open(&path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let pid: i32 = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let wanted = [b"local", b"daemon".as_slice(), b"--root", root.as_os_str().as_encoded_bytes()];
    arguments.split(|byte| *byte == 0).skip(1).take(wanted.len()).eq(wanted).then(|| Pid::from_raw(pid))?
}
