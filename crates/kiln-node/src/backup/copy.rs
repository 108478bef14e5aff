//! A copy of slurmctld's state while it runs. It replaces whole files, so that each file by itself is right at any time;
//! while it replaces one, there is a moment without it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::{Result, failed};

const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The list of jobs comes first and their scripts after it: a job that came in between has a script too many, which
/// slurmctld removes, and none lacks its script.
pub(super) fn copy_state(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).map_err(failed("make", to))?;
    let wanted = files_in(from)?;
    copy_files(from, to, wanted, ATTEMPTS)?;
    for entry in fs::read_dir(from).map_err(failed("read", from))?.flatten() {
        if entry.path().is_dir() {
            copy_scripts(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// A file that stays away was deleted, or only the one before it is left, which slurmctld reads then.
fn copy_files(from: &Path, to: &Path, mut wanted: BTreeSet<PathBuf>, attempts: u32) -> Result<()> {
    for _ in 0..attempts {
        let mut vanished = BTreeSet::new();
        for name in wanted {
            if !copy_file(&from.join(&name), &to.join(&name))? {
                vanished.insert(name);
            }
        }
        if vanished.is_empty() {
            return Ok(());
        }
        wanted = vanished;
        thread::sleep(PAUSE);
    }
    for name in wanted {
        let old = name.with_extension("old");
        copy_file(&from.join(&old), &to.join(&old))?;
    }
    Ok(())
}

/// Returns whether the file was there.
fn copy_file(from: &Path, to: &Path) -> Result<bool> {
    match fs::copy(from, to) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("copy", from)(error)),
    }
}

/// Scripts and environments of jobs: written once, deleted with their job, so that what vanishes is of no use any more.
fn copy_scripts(from: &Path, to: &Path) -> Result<()> {
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("read", from)(error)),
    };
    fs::create_dir_all(to).map_err(failed("make", to))?;
    for entry in entries.flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_scripts(&source, &target)?;
        } else {
            copy_file(&source, &target)?;
        }
    }
    Ok(())
}

/// Without those that are being written or have been replaced.
fn files_in(directory: &Path) -> Result<BTreeSet<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(failed("read", directory))?.flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let wanted = files.filter_map(|entry| {
        let name = PathBuf::from(entry.file_name());
        match name.extension().and_then(|extension| extension.to_str()) {
            Some("new") => None,
            // Between the two steps of a replacement only the old one is there.
            Some("old") => Some(name.with_extension("")),
            _ => Some(name),
        }
    });
    Ok(wanted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("hash.1/job.11")).unwrap();
        for (name, text) in
            [("job_state", "jobs"), ("job_state.old", "before"), ("hash.1/job.11/script", "#!/bin/sh")]
        {
            fs::write(from.join(name), text).unwrap();
        }
        (dir, from, to)
    }

    #[test]
    fn files_and_scripts_are_copied() {
        let (_dir, from, to) = state();
        fs::write(from.join("job_state.new"), "half").unwrap();
        copy_state(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("job_state")).unwrap(), "jobs");
        assert_eq!(fs::read_to_string(to.join("hash.1/job.11/script")).unwrap(), "#!/bin/sh");
        assert!(!to.join("job_state.new").exists() && !to.join("job_state.old").exists());
    }

    #[test]
    fn a_file_that_is_being_replaced_is_waited_for() {
        let (_dir, from, to) = state();
        fs::remove_file(from.join("job_state")).unwrap();
        let (new, target) = (from.join("job_state.new"), from.join("job_state"));
        let writer = thread::spawn(move || {
            thread::sleep(PAUSE * 2);
            // As slurmctld does it: never half.
            fs::write(&new, "newer").unwrap();
            fs::rename(new, target).unwrap();
        });
        fs::create_dir(&to).unwrap();
        copy_files(&from, &to, files_in(&from).unwrap(), 600).unwrap();
        writer.join().unwrap();
        assert_eq!(fs::read_to_string(to.join("job_state")).unwrap(), "newer");
    }

    #[test]
    fn what_slurmctld_would_read_is_copied() {
        let (_dir, from, to) = state();
        fs::remove_file(from.join("job_state")).unwrap();
        copy_state(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("job_state.old")).unwrap(), "before");
    }
}
