//! Records on disk: one JSON file each, written whole or not at all, and a map of them in memory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// A directory only root can enter.
pub fn make_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| Error::failed(format!("cannot make {}", path.display())).because(e))
}

/// What a file is called until it is whole.
const UNFINISHED: &str = "tmp";

/// Replaces a file in one step: after a crash it is the old one or the new one. Readable by root only.
pub fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let temporary = path.with_extension(UNFINISHED);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_parent(path)
    };
    write().map_err(|e| Error::failed(format!("cannot write {}", path.display())).because(e))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::failed(format!("cannot write {}", path.display())).because(e))?;
    write_file(path, &text)
}

pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::failed(format!("cannot remove {}", path.display())).because(e))
        }
        _ => Ok(()),
    }
}

/// Removes a directory and everything in it; it may be gone already.
pub fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::failed(format!("cannot remove {}", path.display())).because(e))
        }
        _ => Ok(()),
    }
}

pub trait Record: Serialize + DeserializeOwned + Clone {
    /// As in "the cloud has no {KIND} x".
    const KIND: &'static str;
    fn id(&self) -> &str;
}

/// All records of one kind.
pub struct Table<T> {
    dir: PathBuf,
    rows: BTreeMap<String, T>,
}

impl<T: Record> Table<T> {
    pub fn load(dir: PathBuf) -> Result<Self> {
        make_dir(&dir)?;
        let mut rows = BTreeMap::new();
        let entries = fs::read_dir(&dir)
            .map_err(|e| Error::failed(format!("cannot use {}", dir.display())).because(e))?;
        for path in entries.flatten().map(|e| e.path()) {
            // A daemon that was killed while it wrote: nobody else would remove this, and it may hold user data.
            if path.extension().is_some_and(|e| e == UNFINISHED) {
                remove_file(&path)?;
            }
            if path.extension().is_none_or(|e| e != "json") {
                continue;
            }
            let text = fs::read(&path)
                .map_err(|e| Error::failed(format!("cannot use {}", path.display())).because(e))?;
            let row: T = serde_json::from_slice(&text)
                .map_err(|e| Error::failed(format!("cannot use {}", path.display())).because(e))?;
            rows.insert(row.id().to_string(), row);
        }
        Ok(Table { dir, rows })
    }

    pub fn get(&self, id: &str) -> Result<&T> {
        self.rows.get(id).ok_or_else(|| Error::not_found(T::KIND, id.to_string()))
    }

    pub fn put(&mut self, row: T) -> Result<()> {
        write_json(&self.path(row.id()), &row)?;
        self.rows.insert(row.id().to_string(), row);
        Ok(())
    }

    pub fn remove(&mut self, id: &str) -> Result<()> {
        remove_file(&self.path(id))?;
        self.rows.remove(id);
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows.values()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;
    use crate::local::daemon::records::VolumeRecord;

    #[test]
    fn what_was_put_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let row =
            VolumeRecord { id: "v1".into(), name: "state".into(), size_gib: 1, labels: BTreeMap::new() };
        let mut table = Table::load(dir.path().to_path_buf()).unwrap();
        table.put(row).unwrap();
        fs::write(dir.path().join("v2.tmp"), "half").unwrap();

        let mut table: Table<VolumeRecord> = Table::load(dir.path().to_path_buf()).unwrap();
        assert_eq!(table.get("v1").unwrap().name, "state");
        assert!(matches!(table.get("v2"), Err(Error { class: Class::NotFound { kind: "volume" }, .. })));
        assert!(!dir.path().join("v2.tmp").exists());
        table.remove("v1").unwrap();
        let table: Table<VolumeRecord> = Table::load(dir.path().to_path_buf()).unwrap();
        assert!(table.is_empty());
    }
}
