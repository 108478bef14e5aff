//! A note for as long as a restore replaces the state. Until it is over, accounting and the queue may be of different times, or
//! the queue may be nowhere: a restore that was cut off must be seen, and Slurm must not start from what it left.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::{Result, failed};

/// From here on nothing may be started until [`end`].
pub(super) fn begin(note: &Path, backup: &str) -> Result<()> {
    let mut file = File::create(note).map_err(failed("write", note))?;
    writeln!(file, "{backup}").and_then(|()| file.sync_all()).map_err(failed("write", note))?;
    rustix::fs::sync();
    Ok(())
}

pub(super) fn end(note: &Path) -> Result<()> {
    rustix::fs::sync();
    fs::remove_file(note).map_err(failed("delete", note))
}

/// The backup of a restore that was cut off, if one was. A note that cannot be read is one, too.
pub(super) fn cut_off(note: &Path) -> Option<String> {
    match fs::read_to_string(note) {
        Ok(name) => Some(name.trim().to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(format!("of an unknown name ({error})")),
    }
}

/// Where a directory is while another takes its place.
pub(super) fn aside(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".replaced");
    name.into()
}

/// Puts back what a restore has put aside, if it was cut off before there was anything in its place.
pub(super) fn take_back(directory: &Path) -> Result<()> {
    let old = aside(directory);
    let is_empty = fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
    if !old.exists() || !is_empty {
        return Ok(());
    }
    if directory.exists() {
        fs::remove_dir(directory).map_err(failed("delete", directory))?;
    }
    fs::rename(&old, directory).map_err(failed("put back", directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_that_was_cut_off_is_seen_until_one_ends_well() {
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("note");
        assert_eq!(cut_off(&note), None);
        begin(&note, "b1").unwrap();
        assert_eq!(cut_off(&note).as_deref(), Some("b1"));
        begin(&note, "b2").unwrap();
        assert_eq!(cut_off(&note).as_deref(), Some("b2"));
        end(&note).unwrap();
        assert_eq!(cut_off(&note), None);
        fs::create_dir(&note).unwrap();
        assert!(cut_off(&note).is_some(), "nobody can say that all is well");
    }

    #[test]
    fn what_was_put_aside_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("slurmctld");
        let put_aside = || {
            fs::create_dir(aside(&state)).unwrap();
            fs::write(aside(&state).join("job_state"), "old").unwrap();
        };
        let content = || fs::read_to_string(state.join("job_state")).unwrap_or_default();
        // Cut off between the two renames.
        put_aside();
        take_back(&state).unwrap();
        assert_eq!((content().as_str(), aside(&state).exists()), ("old", false));
        // Nothing to take back.
        take_back(&state).unwrap();
        assert_eq!(content(), "old");
        // What has taken its place stays.
        put_aside();
        fs::write(state.join("job_state"), "new").unwrap();
        take_back(&state).unwrap();
        assert_eq!((content().as_str(), aside(&state).exists()), ("new", true));
        // `kiln configure` has made an empty one since.
        fs::remove_file(state.join("job_state")).unwrap();
        take_back(&state).unwrap();
        assert_eq!(content(), "old");
    }
}
