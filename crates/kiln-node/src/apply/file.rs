//! Files: content, mode and owner. Replaced as a whole, and never through a symbolic link.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use base64::Engine;
use kiln_wire::bundle::File;
use rustix::fs::FileType;

use super::ApplyError;
use super::session::Session;
use crate::diff;
use crate::explain;
use crate::process;
use crate::tree::{Entry, kind, permissions};
use crate::verdict::Verdict;

enum Current {
    Missing,
    Link,
    File { content: Vec<u8>, mode: u32, uid: u32, gid: u32 },
}

pub(super) fn apply(session: &Session, file: &File) -> Result<Verdict, ApplyError> {
    let wanted = content(file)?;
    let owner = session.owner(&file.owner, &file.group)?;
    let current = match session.tree.entry(&file.path)? {
        Some(entry) => Current::read(&entry, &file.path)?,
        None => Current::Missing,
    };

    let mut changes = Vec::new();
    let mut rewrite = true;
    let mut before = None;
    match &current {
        Current::Missing => changes.push("created".to_owned()),
        Current::Link => changes.push("replaced a symbolic link".to_owned()),
        Current::File { content, mode, uid, gid } => {
            rewrite = *content != wanted;
            before = Some(content.as_slice());
            if rewrite {
                changes.push("content".to_owned());
            }
            if *mode != file.mode {
                changes.push(format!("mode: {mode:04o} -> {:04o}", file.mode));
            }
            if (*uid, *gid) != (owner.uid, owner.gid) {
                changes.push(format!(
                    "owner: {} -> {}:{}",
                    session.owner_name(*uid, *gid),
                    file.owner,
                    file.group
                ));
            }
        }
    }
    if changes.is_empty() {
        return Ok(Verdict::unchanged());
    }
    if rewrite && !file.check.is_empty() {
        check(&file.check, &wanted)?;
    }
    if !session.dry_run {
        let entry = session.tree.make_entry(&file.path)?;
        if rewrite {
            entry.write(&wanted, file.mode, owner)?;
        } else {
            entry.set_attributes(file.mode, owner)?;
        }
    }
    let text = if rewrite && !file.secret { diff::unified(&file.path, before, Some(&wanted)) } else { None };
    Ok(Verdict::changed(changes.join(", ")).with_diff(describe(&changes, text)))
}

/// Checks the new content with the program that reads it.
fn check(argv: &[String], content: &[u8]) -> Result<(), ApplyError> {
    let refused = |why: String| ApplyError::Refused(format!("{why}\nthe file is left as it was"));
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let candidate = std::env::temp_dir().join(format!("kiln-check.{}.{nanos}", std::process::id()));
    // Never through a link that is already there.
    let create = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&candidate);
    let written = create.and_then(|mut file| file.write_all(content));
    let result = written.map_err(|e| e.to_string()).and_then(|()| {
        let path = candidate.display().to_string();
        let argv: Vec<String> = argv.iter().map(|word| word.replace("{}", &path)).collect();
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        process::call(&argv).map(drop).map_err(|e| explain(&e))
    });
    let _ = std::fs::remove_file(&candidate);
    result.map_err(refused)
}

impl Current {
    fn read(entry: &Entry, path: &str) -> Result<Self, ApplyError> {
        let Some(stat) = entry.stat()? else {
            return Ok(Current::Missing);
        };
        match kind(&stat) {
            FileType::Symlink => Ok(Current::Link),
            FileType::RegularFile => Ok(Current::File {
                content: entry.read()?,
                mode: permissions(&stat),
                uid: stat.st_uid,
                gid: stat.st_gid,
            }),
            _ => Err(ApplyError::Refused(format!("`{path}` exists and is not a file"))),
        }
    }
}

fn content(file: &File) -> Result<Vec<u8>, ApplyError> {
    if !file.base64 {
        return Ok(file.content.clone().into_bytes());
    }
    // The decoder's error would quote a byte of the content.
    base64::engine::general_purpose::STANDARD
        .decode(&file.content)
        .map_err(|_| ApplyError::Refused(format!("the content of `{}` is not base64", file.path)))
}

/// The lines on mode and owner, then the diff of the text.
fn describe(changes: &[String], text: Option<String>) -> Option<String> {
    let mut result = String::new();
    for line in changes.iter().filter(|change| change.contains(": ")) {
        result.push_str(line);
        result.push('\n');
    }
    result.push_str(&text.unwrap_or_default());
    (!result.is_empty()).then_some(result)
}
