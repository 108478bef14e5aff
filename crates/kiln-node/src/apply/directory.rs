//! Directories: made with their parents, then mode and owner.

use kiln_wire::bundle::Directory;
use rustix::fs::FileType;

use super::ApplyError;
use super::session::Session;
use crate::tree::{kind, permissions};
use crate::verdict::Verdict;

pub(super) fn apply(session: &Session, directory: &Directory) -> Result<Verdict, ApplyError> {
    let owner = session.owner(&directory.owner, &directory.group)?;
    let stat = match session.tree.entry(&directory.path)? {
        Some(entry) => entry.stat()?,
        None => None,
    };
    let Some(stat) = stat else {
        if !session.dry_run {
            session.tree.make_entry(&directory.path)?.make_directory(directory.mode, owner)?;
        }
        return Ok(Verdict::changed("created"));
    };
    if kind(&stat) != FileType::Directory {
        return Err(ApplyError::Refused(format!("`{}` exists and is not a directory", directory.path)));
    }
    let mut changes = Vec::new();
    let mode = permissions(&stat);
    if mode != directory.mode {
        changes.push(format!("mode: {mode:04o} -> {:04o}", directory.mode));
    }
    if (stat.st_uid, stat.st_gid) != (owner.uid, owner.gid) {
        let now = session.owner_name(stat.st_uid, stat.st_gid);
        changes.push(format!("owner: {now} -> {}:{}", directory.owner, directory.group));
    }
    if changes.is_empty() {
        return Ok(Verdict::unchanged());
    }
    if !session.dry_run {
        session.tree.make_entry(&directory.path)?.set_attributes(directory.mode, owner)?;
    }
    Ok(Verdict::changed(changes.join(", ")).with_diff(Some(changes.join("\n") + "\n")))
}
