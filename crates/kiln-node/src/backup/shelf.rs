//! The directory that holds the backups, one directory each. One that is being written has a name with a dot before it
//! and does not count.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kiln_wire::BackupManifest;
use kiln_wire::backup::is_plain;

use super::{Result, failed};

pub(super) struct Shelf {
    pub directory: PathBuf,
}

impl Shelf {
    pub fn new(directory: PathBuf) -> Shelf {
        Shelf { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Newest first; then the names of directories that have no manifest that can be read.
    pub fn list(&self) -> Result<(Vec<BackupManifest>, Vec<String>)> {
        let (mut backups, mut unreadable) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.directory).map_err(failed("read", &self.directory))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // A file system has directories of its own.
            if !is_plain(&name) || name == "lost+found" || !entry.path().is_dir() {
                continue;
            }
            match BackupManifest::of(&entry.path()) {
                Ok(manifest) if manifest.name == name => backups.push(manifest),
                _ => unreadable.push(name),
            }
        }
        backups.sort_by(|a, b| (b.time, &b.name).cmp(&(a.time, &a.name)));
        unreadable.sort();
        Ok((backups, unreadable))
    }

    /// A name that no backup has.
    pub fn name_for(&self, time: Timestamp) -> String {
        let first = time.strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
        let more = (2..).map(|n| format!("{first}-{n}"));
        let free = |name: &String| !self.path(name).exists();
        std::iter::once(first.clone()).chain(more).find(free).unwrap_or(first)
    }

    /// Where a backup is written until it is whole.
    pub fn partial(&self, name: &str) -> PathBuf {
        self.directory.join(format!(".{name}.partial"))
    }

    /// What runs that were cut off have left.
    pub fn clear_partial(&self) -> Result<()> {
        for entry in fs::read_dir(&self.directory).map_err(failed("read", &self.directory))?.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') && name.ends_with(".partial") {
                fs::remove_dir_all(entry.path()).map_err(failed("delete", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// Makes a whole backup out of a partial one: all of it is on the disk before it has its name.
    pub fn put(&self, partial: &Path, name: &str) -> Result<PathBuf> {
        for entry in fs::read_dir(partial).map_err(failed("read", partial))?.flatten() {
            sync(&entry.path())?;
        }
        sync(partial)?;
        let path = self.path(name);
        fs::rename(partial, &path).map_err(failed("write", &path))?;
        sync(&self.directory)?;
        Ok(path)
    }

    pub fn delete(&self, name: &str) -> Result<()> {
        // Out of the list first, so that half a backup is never in it.
        let (path, going) = (self.path(name), self.partial(name));
        fs::rename(&path, &going).map_err(failed("delete", &path))?;
        fs::remove_dir_all(&going).map_err(failed("delete", &path))
    }
}

fn sync(path: &Path) -> Result<()> {
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(failed("write", path))
}

/// Which backups are too many. Those that the timer made and those that a person or an upgrade asked for are counted
/// apart, so that neither drives out the other. `backups`: newest first.
pub(super) fn surplus(backups: &[BackupManifest], keep: usize) -> Vec<&str> {
    let too_many = |scheduled: bool| {
        let kind = backups.iter().filter(move |backup| backup.scheduled == scheduled);
        kind.skip(keep.max(1)).map(|backup| backup.name.as_str())
    };
    too_many(true).chain(too_many(false)).collect()
}

/// The newest backup, if the present state did not grow out of it. What a restore has replaced does not count.
/// `backups`: newest first.
pub(super) fn left_behind<'a>(backups: &'a [BackupManifest], state_id: Option<&str>) -> Option<&'a str> {
    let newest = backups.iter().find(|backup| !backup.replaced);
    newest.filter(|newest| Some(newest.state_id.as_str()) != state_id).map(|newest| newest.name.as_str())
}

#[cfg(test)]
pub(super) mod tests {

    use kiln_wire::Format as _;
    use kiln_wire::backup::MANIFEST;

    use super::*;

    pub fn backup(second: i64, scheduled: bool) -> BackupManifest {
        let time = Timestamp::from_second(second).unwrap();
        BackupManifest {
            name: format!("b{second}"),
            time,
            scheduled,
            cluster: "demo".into(),
            state_id: "a".into(),
            slurm: "22.05.8".into(),
            ..BackupManifest::default()
        }
    }

    #[test]
    fn only_whole_backups_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().to_path_buf());
        for backup in [backup(1, true), backup(3, false), backup(2, true)] {
            let partial = shelf.partial(&backup.name);
            fs::create_dir(&partial).unwrap();
            fs::write(partial.join(MANIFEST), backup.to_json().unwrap()).unwrap();
            shelf.put(&partial, &backup.name).unwrap();
        }
        fs::create_dir(shelf.partial("half")).unwrap();
        fs::create_dir(shelf.path("odd")).unwrap();
        fs::create_dir(shelf.path("lost+found")).unwrap();
        let names = || {
            let (backups, unreadable) = shelf.list().unwrap();
            (backups.into_iter().map(|b| b.name).collect::<Vec<_>>(), unreadable)
        };
        assert_eq!(names(), (vec!["b3".into(), "b2".into(), "b1".into()], vec!["odd".to_string()]));
        shelf.delete("b2").unwrap();
        shelf.clear_partial().unwrap();
        assert_eq!(names().0, ["b3", "b1"]);
        assert!(!shelf.partial("half").exists() && shelf.path("odd").exists());
    }

    #[test]
    fn names_are_never_used_twice() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().to_path_buf());
        let name = || shelf.name_for(Timestamp::UNIX_EPOCH);
        assert_eq!(name(), "1970-01-01T00-00-00Z");
        fs::create_dir(shelf.path(&name())).unwrap();
        assert_eq!(name(), "1970-01-01T00-00-00Z-2");
    }

    #[test]
    fn the_newest_and_those_of_upgrades_stay() {
        let all = [
            backup(9, true),
            backup(8, true),
            backup(7, false),
            backup(6, true),
            backup(5, false),
            backup(4, false),
        ];
        assert_eq!(surplus(&all, 2), ["b6", "b4"]);
        assert_eq!(surplus(&all, 0), ["b8", "b6", "b5", "b4"], "the newest of a kind always stays");
        assert!(surplus(&all, 14).is_empty());
    }

    #[test]
    fn a_state_that_started_empty_is_noticed() {
        assert_eq!(left_behind(&[backup(2, true)], Some("a")), None);
        assert_eq!(left_behind(&[backup(2, true)], Some("b")), Some("b2"));
        assert_eq!(left_behind(&[backup(2, true)], None), Some("b2"));
        assert_eq!(left_behind(&[], None), None);
        let replaced = BackupManifest { state_id: "b".into(), replaced: true, ..backup(3, false) };
        assert_eq!(left_behind(&[replaced, backup(2, true)], Some("a")), None, "a restore went well");
    }
}
