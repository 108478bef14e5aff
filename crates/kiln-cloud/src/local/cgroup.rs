//! The version 2 cgroup tree: where it is, who lives in it, and how to end them.
//!
//! An instance has one directory; everything it runs, its supervisor included, is below it. So "is it
//! running" is one reading, and "end it" is one write that leaves nobody behind.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Where the host has mounted the version 2 tree: not always `/sys/fs/cgroup`.
pub fn hierarchy() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")
        .map_err(|e| Error::failed("cannot read /proc/self/mounts").because(e))?;
    find_mount(&mounts).ok_or_else(|| Error::failed("this host has no cgroup version 2 mounted"))
}

fn find_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, target, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(target))
    })
}

pub fn create(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)
        .map_err(|e| Error::failed(format!("cannot make cgroup {}", dir.display())).because(e))
}

/// For handing to a child, which joins by writing to it.
pub fn procs(dir: &Path) -> Result<File> {
    OpenOptions::new()
        .write(true)
        .open(dir.join("cgroup.procs"))
        .map_err(|e| Error::failed(format!("cannot open cgroup {}", dir.display())).because(e))
}

/// Whether any process lives in the directory or below.
pub fn populated(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.events"))
        .is_ok_and(|events| events.lines().any(|l| l == "populated 1"))
}

/// The processes directly in a directory.
pub fn members(dir: &Path) -> Vec<i32> {
    fs::read_to_string(dir.join("cgroup.procs"))
        .map(|text| text.lines().filter_map(|line| line.parse().ok()).collect())
        .unwrap_or_default()
}

pub fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

/// Waits until nobody is left. `false` if somebody still is when the time is up.
pub fn wait_empty(dir: &Path, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while populated(dir) {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Ends every process below and removes the directories.
pub fn destroy(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    // A directory that was killed must not be booted in again (newer systemds lose services), hence the removal.
    let _ = fs::write(dir.join("cgroup.kill"), "1");
    if !wait_empty(dir, Duration::from_secs(20)) {
        return Err(Error::failed(format!("processes in {} do not end", dir.display())));
    }
    remove_tree(dir).map_err(|e| Error::failed(format!("cannot remove cgroup {}", dir.display())).because(e))
}

fn remove_tree(dir: &Path) -> io::Result<()> {
    for child in children(dir) {
        remove_tree(&child)?;
    }
    // The kernel may need a moment after the last exit.
    let mut tries = 0;
    loop {
        match fs::remove_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && tries < 200 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_found_on_hybrid_and_pure_hosts() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(find_mount(hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        let pure = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(find_mount(pure), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(find_mount("proc /proc proc rw 0 0\n"), None);
    }
}
