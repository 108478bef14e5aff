//! Makes one backup: into a directory that does not count until all of it is on the disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use kiln_wire::backup::{ACCOUNTS, BackupFile, BackupMade, DATABASE, DIRECTORY, MANIFEST, SLURMCTLD, STORE};
use kiln_wire::{BackupManifest, Format as _, Version, paths};
use rusqlite::{Connection, OpenFlags};

use super::check::UNIT;
use super::shelf::{self, Shelf};
use super::{
    BackupError, Result, check_whole, cluster, copy, database, directory, failed, release, settings, state_id,
};
use crate::{lock, process};

/// How long slurmctld may keep a change before it writes it down. It does not tell when it has.
const UNWRITTEN: Duration = Duration::from_secs(6);

/// Why a backup is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occasion {
    /// The timer asks for it.
    Scheduled,
    /// Somebody asks for it, for this reason.
    Asked(String),
    /// What is there is about to be replaced by the backup of this name.
    Replaced(String),
}

/// Makes a backup and deletes those that are too many.
pub fn now(occasion: &Occasion) -> Result<BackupMade> {
    let root = Path::new("/");
    let _lock = lock::acquire_for_backup(root)?;
    let made = match make(occasion) {
        // A bundle that is applied may have restarted what is read here: once more, when that is over.
        Err(error) if error.is_of_a_program() => {
            lock::acquire(root).map(drop).map_or(Err(error), |()| make(occasion))
        }
        made => made,
    }?;
    if *occasion != Occasion::Scheduled {
        // The timer's last one may have failed. What it says of the backups is no longer so.
        let _ = process::call(&["systemctl", "reset-failed", UNIT]);
    }
    Ok(made)
}

/// The caller has the lock.
pub(super) fn make(occasion: &Occasion) -> Result<BackupMade> {
    // It would be one of two times, and would drive a good one out.
    check_whole()?;
    let settings = settings()?;
    let shelf = super::shelf(&settings)?;
    let (cluster, cluster_id) = cluster()?;
    shelf.clear_partial()?;
    let (backups, _) = shelf.list()?;
    let state_id = name_state(occasion, &backups)?;
    check_room(&shelf, &backups)?;
    let time = Timestamp::now();
    let reason = match occasion {
        Occasion::Scheduled => "scheduled".to_owned(),
        Occasion::Asked(reason) => reason.clone(),
        Occasion::Replaced(name) => format!("before the restore of {name}"),
    };
    let mut manifest = BackupManifest {
        format: Version,
        name: shelf.name_for(time),
        time,
        reason,
        scheduled: *occasion == Occasion::Scheduled,
        replaced: matches!(occasion, Occasion::Replaced(_)),
        cluster,
        cluster_id,
        state_id,
        slurm: release()?.to_string(),
        accounting: settings.accounting.clone(),
        secrets: settings.secrets.clone(),
        files: BTreeMap::new(),
    };
    let partial = shelf.partial(&manifest.name);
    let path = match write(&mut manifest, &partial, settings.directory_base.is_some())
        .and_then(|()| shelf.put(&partial, &manifest.name))
    {
        Ok(path) => path,
        Err(error) => {
            // The disk may be full: what is left would keep it so.
            let _ = fs::remove_dir_all(&partial);
            return Err(error);
        }
    };
    let (backups, _) = shelf.list()?;
    let deleted = shelf::surplus(&backups, settings.keep);
    for name in &deleted {
        shelf.delete(name)?;
    }
    let deleted = deleted.into_iter().map(String::from).collect();
    Ok(BackupMade { format: Version, bytes: manifest.bytes(), name: manifest.name, path, deleted })
}

/// The name of the present state. Where backups are of another one, the timer must not fill the directory with what may
/// be an empty cluster: a person decides.
fn name_state(occasion: &Occasion, backups: &[BackupManifest]) -> Result<String> {
    let present = state_id();
    if let Some(other) = shelf::left_behind(backups, present.as_deref())
        && *occasion == Occasion::Scheduled
    {
        return Err(BackupError::LeftBehind(other.to_owned()));
    }
    if let Some(present) = present {
        return Ok(present);
    }
    let path = Path::new("/proc/sys/kernel/random/uuid");
    let new = fs::read_to_string(path).map_err(failed("read", path))?.trim().to_owned();
    super::set_state_id(&new)?;
    Ok(new)
}

/// A backup grows slowly: one that is half as large again as the last one must fit.
fn check_room(shelf: &Shelf, backups: &[BackupManifest]) -> Result<()> {
    let last = backups.first().map_or(0, BackupManifest::bytes);
    let directory = &shelf.directory;
    let room = rustix::fs::statvfs(directory).map_err(|errno| failed("look at", directory)(errno.into()))?;
    let free = room.f_bavail * room.f_frsize;
    if free < last + last / 2 {
        let mib = |bytes: u64| bytes >> 20;
        return Err(BackupError::NoRoom { directory: directory.clone(), free: mib(free), last: mib(last) });
    }
    Ok(())
}

fn write(manifest: &mut BackupManifest, partial: &Path, has_directory: bool) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(partial).map_err(failed("make", partial))?;
    // What takes least time, and may fail, comes first: a database may take hours.
    if has_directory {
        directory::dump(&partial.join(DIRECTORY))?;
    }
    if process::call(&["systemctl", "is-active", "--quiet", "slurmctld.service"]).is_ok() {
        std::thread::sleep(UNWRITTEN);
    }
    // The state comes before the database: every job that has left the state is in the accounts by then.
    archive_state(partial)?;
    if manifest.accounting.is_none() {
        database::dump(&partial.join(DATABASE))?;
    }
    dump_accounts(&manifest.cluster, &partial.join(ACCOUNTS))?;
    copy_store(Path::new(paths::STORE), &partial.join(STORE))?;
    for entry in fs::read_dir(partial).map_err(failed("read", partial))?.flatten() {
        let file = BackupFile::of(&entry.path()).map_err(failed("read", &entry.path()))?;
        manifest.files.insert(entry.file_name().to_string_lossy().into_owned(), file);
    }
    let path = partial.join(MANIFEST);
    let json = manifest.to_json().map_err(|error| failed("write", &path)(error.into()))?;
    fs::write(&path, json).map_err(failed("write", &path))
}

fn archive_state(partial: &Path) -> Result<()> {
    let copied = partial.join("slurmctld");
    copy::copy_state(Path::new(paths::SLURMCTLD_STATE), &copied)?;
    let archive = partial.join(SLURMCTLD);
    let (from, to) = (copied.to_string_lossy(), archive.to_string_lossy());
    let argv = ["tar", "--create", "--gzip", "--file", &to, "--directory", &from, "."];
    process::run(&argv, None, Duration::from_secs(3600))?.checked()?;
    fs::remove_dir_all(&copied).map_err(failed("delete", &copied))
}

/// As text, for people and for `sacctmgr load`. Only slurmdbd can tell; without it the rest must do.
fn dump_accounts(cluster: &str, into: &Path) -> Result<()> {
    let file = format!("file={}", into.display());
    let argv = ["sacctmgr", "--immediate", "dump", cluster, &file];
    let done = process::run(&argv, None, Duration::from_secs(120));
    if !done.is_ok_and(|output| output.success()) && into.exists() {
        fs::remove_file(into).map_err(failed("delete", into))?;
    }
    Ok(())
}

/// kilnd goes on meanwhile. A store that is not there yet is none to lose.
fn copy_store(from: &Path, into: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let store = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    store.busy_timeout(Duration::from_secs(30))?;
    store.execute("VACUUM INTO ?1", [into.to_string_lossy()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_use_is_copied_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("store.db"), dir.path().join("copy.db"));
        let store = Connection::open(&path).unwrap();
        store.pragma_update(None, "journal_mode", "WAL").unwrap();
        store.execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (7)").unwrap();
        copy_store(&path, &copy).unwrap();
        let copied = Connection::open(&copy).unwrap();
        let n: i64 = copied.query_row("SELECT n FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(n, 7);
        copy_store(&dir.path().join("none"), &dir.path().join("no")).unwrap();
    }
}
