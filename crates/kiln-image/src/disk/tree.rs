//! One directory tree from an image's layers, without a mount: what is no directory is a hard link into its layer.
//!
//! Whoever changes a file of the tree must replace it: the file is the layer's.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};
use tokio_util::sync::CancellationToken;

/// The overlay's own notes; they mean nothing outside of it.
const NOTES: &[u8] = b"trusted.overlay.";
const OPAQUE: &str = "trusted.overlay.opaque";
const BLOCK: u64 = 4096;

/// What a tree holds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// In whole blocks of a file system.
    pub bytes: u64,
    pub entries: u64,
}

pub struct Merge<'a> {
    stop: &'a CancellationToken,
    content: Content,
    /// Files that were copied, by device and number: they may have more names.
    copies: HashMap<(u64, u64), PathBuf>,
}

/// Makes `target` the tree of these layers, the bottom one first.
pub fn merge(layers: &[PathBuf], target: &Path, stop: &CancellationToken) -> io::Result<Content> {
    let mut merge = Merge { stop, content: Content::default(), copies: HashMap::new() };
    let top_first: Vec<PathBuf> = layers.iter().rev().cloned().collect();
    merge.directory(&top_first, target)?;
    Ok(merge.content)
}

impl Merge<'_> {
    /// `from`: the directories that show through here, the top one first.
    fn directory(&mut self, from: &[PathBuf], target: &Path) -> io::Result<()> {
        if self.stop.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        fs::create_dir(target)?;
        let mut names: BTreeMap<OsString, Vec<PathBuf>> = BTreeMap::new();
        for layer in from {
            for entry in fs::read_dir(layer)? {
                let entry = entry?;
                names.entry(entry.file_name()).or_default().push(entry.path());
            }
        }
        for (name, found) in names {
            self.entry(&found, &target.join(name))?;
        }
        self.content.entries += 1;
        self.content.bytes += BLOCK;
        if let Some(top) = from.first() {
            dress(top, &fs::symlink_metadata(top)?, target)?;
        }
        Ok(())
    }

    /// `found`: everything of this name, the top one first.
    fn entry(&mut self, found: &[PathBuf], target: &Path) -> io::Result<()> {
        let Some(top) = found.first() else { return Ok(()) };
        let data = fs::symlink_metadata(top)?;
        if is_whiteout(&data) {
            return Ok(());
        }
        if !data.is_dir() {
            return self.file(top, &data, target);
        }
        let mut shown = Vec::new();
        for path in found {
            let data = fs::symlink_metadata(path)?;
            if !data.is_dir() {
                break;
            }
            shown.push(path.clone());
            if is_opaque(path)? {
                break;
            }
        }
        self.directory(&shown, target)
    }

    fn file(&mut self, from: &Path, data: &Metadata, target: &Path) -> io::Result<()> {
        self.content.entries += 1;
        if data.is_file() {
            self.content.bytes += data.len().next_multiple_of(BLOCK);
        }
        let has_notes = data.is_file() && attributes(from)?.iter().any(|name| is_note(name));
        if !has_notes {
            return fs::hard_link(from, target);
        }
        // A file that the layer has from one below is marked as such, and a link to it would be, too.
        let key = (data.dev(), data.ino());
        if let Some(copy) = self.copies.get(&key) {
            return fs::hard_link(copy, target);
        }
        fs::copy(from, target)?;
        dress(from, data, target)?;
        self.copies.insert(key, target.to_path_buf());
        Ok(())
    }
}

/// A name that hides what the layers below have of it.
fn is_whiteout(data: &Metadata) -> bool {
    data.file_type().is_char_device() && data.rdev() == 0
}

/// A directory that hides that of the layers below.
fn is_opaque(path: &Path) -> io::Result<bool> {
    Ok(attribute(path, OPAQUE)?.is_some_and(|value| value == b"y"))
}

/// Owner, mode, attributes and time of the original.
fn dress(from: &Path, data: &Metadata, to: &Path) -> io::Result<()> {
    std::os::unix::fs::chown(to, Some(data.uid()), Some(data.gid()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(data.mode() & 0o7777))?;
    for name in attributes(from)?.iter().filter(|name| !is_note(name)) {
        let name = name.to_string_lossy();
        if let Some(value) = attribute(from, &name)? {
            rustix::fs::lsetxattr(to, &*name, &value, XattrFlags::empty())?;
        }
    }
    set_time(to, data.mtime(), data.mtime_nsec())
}

pub fn set_time(path: &Path, seconds: i64, nanoseconds: i64) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let both = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, path, &both, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn is_note(name: &CStr) -> bool {
    name.to_bytes().starts_with(NOTES)
}

fn attributes(path: &Path) -> io::Result<Vec<CString>> {
    let mut buffer = vec![0_u8; 64 * 1024];
    let length = match rustix::fs::llistxattr(path, &mut buffer[..]) {
        Err(rustix::io::Errno::NOTSUP) => 0,
        other => other?,
    };
    let names = buffer[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

fn attribute(path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut buffer = vec![0_u8; 64 * 1024];
    match rustix::fs::lgetxattr(path, name, &mut buffer[..]) {
        Ok(length) => Ok(Some(buffer[..length].to_vec())),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Puts a file of its own into the tree, whatever was there.
pub fn replace(root: &Path, name: &str, content: &str, seconds: i64) -> io::Result<()> {
    let path = root.join(name);
    let parent = path.parent().unwrap_or(root);
    let before = fs::symlink_metadata(parent)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(&path, content)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    set_time(&path, seconds, 0)?;
    set_time(parent, before.mtime(), before.mtime_nsec())
}

/// Removes the files of a directory of the tree whose names begin so.
pub fn remove(root: &Path, directory: &str, prefix: &str) -> io::Result<()> {
    let directory = root.join(directory);
    let Ok(before) = fs::symlink_metadata(&directory) else { return Ok(()) };
    for entry in fs::read_dir(&directory)? {
        let entry = entry?;
        if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            fs::remove_file(entry.path())?;
        }
    }
    set_time(&directory, before.mtime(), before.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What only root can do, in the way the overlay does it.
    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn whiteout(path: &Path) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, path, rustix::fs::FileType::CharacterDevice, mode, 0).unwrap();
    }

    fn listed(root: &Path) -> Vec<String> {
        let mut all = Vec::new();
        let mut open = vec![root.to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                } else {
                    let text = fs::read_to_string(entry.path()).unwrap();
                    let name = entry.path().strip_prefix(root).unwrap().display().to_string();
                    all.push(format!("{name}={text}"));
                }
            }
        }
        all.sort();
        all
    }

    #[test]
    fn the_top_layer_wins_hides_and_removes() {
        assert!(is_root(), "whiteouts are devices");
        let dir = tempfile::tempdir().unwrap();
        let [base, top] = ["base", "top"].map(|name| dir.path().join(name));
        for name in ["etc/a", "etc/b", "gone/x", "opaque/old", "file/was-dir", "kept/y"] {
            write(base.join(name), "base");
        }
        write(top.join("etc/a"), "top");
        write(top.join("opaque/new"), "top");
        write(top.join("file"), "top");
        whiteout(&top.join("etc/b"));
        whiteout(&top.join("gone"));
        rustix::fs::lsetxattr(top.join("opaque"), OPAQUE, b"y", XattrFlags::empty()).unwrap();
        rustix::fs::lsetxattr(top.join("etc/a"), "trusted.overlay.origin", b"z", XattrFlags::empty())
            .unwrap();
        rustix::fs::lsetxattr(top.join("etc/a"), "user.kept", b"v", XattrFlags::empty()).unwrap();
        fs::set_permissions(top.join("etc"), fs::Permissions::from_mode(0o750)).unwrap();
        set_time(&top.join("etc"), 1_000_000, 7).unwrap();

        let tree = dir.path().join("tree");
        let content = merge(&[base.clone(), top.clone()], &tree, &CancellationToken::new()).unwrap();
        assert_eq!(listed(&tree), ["etc/a=top", "file=top", "kept/y=base", "opaque/new=top"]);
        assert_eq!(content, Content { entries: 8, bytes: 8 * BLOCK });
        let etc = fs::metadata(tree.join("etc")).unwrap();
        assert_eq!((etc.mode() & 0o7777, etc.mtime(), etc.mtime_nsec()), (0o750, 1_000_000, 7));
        assert_eq!(attributes(&tree.join("etc/a")).unwrap(), [c"user.kept".to_owned()]);
        assert_eq!(attributes(&tree.join("opaque")).unwrap(), Vec::<CString>::new());

        // Nothing that is done to the tree reaches a layer.
        replace(&tree, "kept/y", "mine", 5).unwrap();
        remove(&tree, "etc", "a").unwrap();
        replace(&tree, "etc/b", "mine", 5).unwrap();
        replace(&tree, "etc/b", "mine again", 5).unwrap();
        // Nor is it seen on the directory.
        assert_eq!(fs::metadata(tree.join("etc")).unwrap().mtime(), 1_000_000);
        fs::remove_dir_all(&tree).unwrap();
        assert_eq!(fs::read_to_string(base.join("kept/y")).unwrap(), "base");
        assert_eq!(fs::read_to_string(top.join("etc/a")).unwrap(), "top");
    }

    #[test]
    fn it_stops_when_asked_to() {
        let dir = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let error = merge(&[dir.path().into()], &dir.path().join("tree"), &stop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
