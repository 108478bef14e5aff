//! Takes a backup that the deploy host brings back.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::Stdio;

use kiln_wire::BackupManifest;
use kiln_wire::backup::is_plain;

use super::{BackupError, Result, failed, load, settings, shelf};
use crate::lock;
use crate::process::{self, ProcessError};

/// Reads the files of a backup from standard input, a tar archive. It counts only if it is whole and of this cluster.
pub fn receive(name: &str) -> Result<()> {
    let _lock = lock::acquire_for_backup(Path::new("/"))?;
    let shelf = shelf(&settings()?)?;
    if !is_plain(name) {
        return Err(BackupError::Unknown(name.to_owned()));
    }
    if shelf.path(name).exists() {
        return Err(BackupError::Exists(name.to_owned()));
    }
    shelf.clear_partial()?;
    let partial = shelf.partial(name);
    let received = unpack(&partial).and_then(|()| {
        let manifest = BackupManifest::verified(&partial)
            .map_err(|source| BackupError::Damaged { name: name.to_owned(), source })?;
        if manifest.name != name {
            return Err(BackupError::Unknown(name.to_owned()));
        }
        load::check(name, &manifest)?;
        shelf.put(&partial, name)
    });
    if received.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    received.map(|_| ())
}

fn unpack(partial: &Path) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(partial).map_err(failed("make", partial))?;
    let program = "tar".to_owned();
    let output = process::command(&program)
        .args(["--extract", "--file", "-", "--no-same-owner", "--directory"])
        .arg(partial)
        .stdin(Stdio::inherit())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|source| ProcessError::Start { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = format!(": {}", process::tail(&String::from_utf8_lossy(&output.stderr), 3));
    Err(ProcessError::Failed { program, status: output.status.to_string(), said }.into())
}
