//! Symbolic links.

use kiln_wire::bundle::Link;
use rustix::fs::FileType;

use super::ApplyError;
use super::session::Session;
use crate::state::process_owner;
use crate::tree::kind;
use crate::verdict::Verdict;

pub(super) fn apply(session: &Session, link: &Link) -> Result<Verdict, ApplyError> {
    let entry = session.tree.entry(&link.path)?;
    let found = match &entry {
        Some(entry) => entry.stat()?.map(|stat| (entry, kind(&stat))),
        None => None,
    };
    let summary = match found {
        None => "created".to_owned(),
        Some((entry, FileType::Symlink)) => {
            let now = entry.read_link()?;
            if now == link.target {
                return Ok(Verdict::unchanged());
            }
            format!("target: {now} -> {}", link.target)
        }
        Some((_, FileType::RegularFile)) => "replaced a file".to_owned(),
        Some(_) => {
            return Err(ApplyError::Refused(format!("`{}` exists and is not a link", link.path)));
        }
    };
    if !session.dry_run {
        session.tree.make_entry(&link.path)?.link(&link.target, process_owner())?;
    }
    Ok(Verdict::changed(summary))
}
