//! Where a hook leaves requests when the store cannot be written: one file each, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::error::{Error, Result, io};
use crate::store::{NewRequest, Store};

const DONE: &str = "json";

pub fn put(spool: &Path, requests: &[NewRequest]) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(spool).map_err(io(spool))?;
    let stem = format!("{}-{}", jiff::Timestamp::now().as_nanosecond(), std::process::id());
    let unfinished = spool.join(format!("{stem}.tmp"));
    let text = serde_json::to_vec(requests).map_err(|e| Error::StoreContent(e.to_string()))?;
    let write = || {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unfinished)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&unfinished, spool.join(format!("{stem}.{DONE}")))?;
        File::open(spool)?.sync_all()
    };
    write().map_err(io(spool))
}

/// Moves requests from the spool into the store. After a crash in between a file is enqueued twice, which is harmless.
pub fn pick_up(spool: &Path, store: &Store) -> Result<usize> {
    let entries = match fs::read_dir(spool) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(io(spool)(error)),
    };
    let mut files: Vec<_> = entries
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == DONE))
        .collect();
    files.sort();
    let mut moved = 0;
    for file in files {
        let text = fs::read(&file).map_err(io(&file))?;
        match serde_json::from_slice::<Vec<NewRequest>>(&text) {
            Ok(requests) => {
                moved += store.enqueue(&requests)?;
                fs::remove_file(&file).map_err(io(&file))?;
            }
            Err(error) => {
                // Kept for a person to look at, out of the way.
                store.log("", "spool", &file.to_string_lossy(), &format!("cannot be read: {error}"))?;
                fs::rename(&file, file.with_extension("bad")).map_err(io(&file))?;
            }
        }
    }
    Ok(moved)
}
