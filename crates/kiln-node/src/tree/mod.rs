//! The file tree that is being configured, below a root.
//!
//! Root writes into directories that users own (their homes), so a path is walked one component at a time and
//! a symbolic link on the way is followed only when root made it. The final component is never followed.

mod entry;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

pub(crate) use entry::{Entry, kind, permissions};

const MAX_LINKS: usize = 40;

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("`{0}` is not an absolute path without `..`")]
    BadPath(String),
    #[error("`{0}` leads through a symbolic link that root does not own")]
    ForeignLink(String),
    #[error("too many symbolic links in `{0}`")]
    TooManyLinks(String),
    #[error("cannot {doing} `{path}`")]
    Io { doing: &'static str, path: String, source: io::Error },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

pub(crate) struct Tree {
    root: OwnedFd,
}

impl Tree {
    pub fn open(root: &Path) -> Result<Self, TreeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .map_err(failed("open", &root.display().to_string()))?;
        Ok(Tree { root })
    }

    /// `None` when a parent directory is missing.
    pub fn entry(&self, path: &str) -> Result<Option<Entry>, TreeError> {
        self.locate(path, false)
    }

    /// Like `entry`, after making the missing parents, 0755.
    pub fn make_entry(&self, path: &str) -> Result<Entry, TreeError> {
        self.locate(path, true)?.ok_or_else(|| TreeError::BadPath(path.to_owned()))
    }

    /// The content of a regular file; `None` when there is none.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, TreeError> {
        let Some(entry) = self.entry(path)? else {
            return Ok(None);
        };
        match entry.stat()? {
            Some(stat) if kind(&stat) == FileType::RegularFile => entry.read().map(Some),
            _ => Ok(None),
        }
    }

    fn locate(&self, path: &str, make: bool) -> Result<Option<Entry>, TreeError> {
        let mut parts = components(path)?;
        let name = parts.pop_back().ok_or_else(|| TreeError::BadPath(path.to_owned()))?;
        let dir = self.walk(parts, make, path)?;
        Ok(dir.map(|dir| Entry { dir, name, path: path.to_owned() }))
    }

    fn walk(
        &self,
        mut todo: VecDeque<OsString>,
        make: bool,
        path: &str,
    ) -> Result<Option<OwnedFd>, TreeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut below: Vec<OwnedFd> = Vec::new();
        let mut links = 0;
        while let Some(part) = todo.pop_front() {
            if part == ".." {
                below.pop();
                continue;
            }
            let here = below.last().unwrap_or(&self.root);
            match rustix::fs::openat(here, &part, flags, Mode::empty()) {
                Ok(dir) => below.push(dir),
                Err(Errno::NOENT) if make => {
                    make_parent(here, &part).map_err(failed("make the parents of", path))?;
                    todo.push_front(part);
                }
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(TreeError::TooManyLinks(path.to_owned()));
                    }
                    let target = trusted_link(here, &part, path)?;
                    if target.is_absolute() {
                        below.clear();
                    }
                    for part in link_parts(&target).into_iter().rev() {
                        todo.push_front(part);
                    }
                }
                Err(error) => return Err(failed("open the parents of", path)(error)),
            }
        }
        match below.pop() {
            Some(dir) => Ok(Some(dir)),
            None => self.root.try_clone().map(Some).map_err(|source| TreeError::Io {
                doing: "open the parents of",
                path: path.to_owned(),
                source,
            }),
        }
    }
}

/// 0755 whatever the umask. By descriptor: in a user's directory the name may be something else a moment later.
fn make_parent(dir: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let mode = Mode::from_raw_mode(0o755);
    match rustix::fs::mkdirat(dir, name, mode) {
        Ok(()) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let parent = rustix::fs::openat(dir, name, flags, Mode::empty())?;
            rustix::fs::fchmod(&parent, mode)
        }
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

fn trusted_link(dir: &OwnedFd, name: &OsStr, path: &str) -> Result<std::path::PathBuf, TreeError> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed("look at", path))?;
    if kind(&stat) != FileType::Symlink {
        return Err(failed("open the parents of", path)(Errno::NOTDIR));
    }
    if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(TreeError::ForeignLink(path.to_owned()));
    }
    let target = rustix::fs::readlinkat(dir, name, Vec::new()).map_err(failed("read", path))?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

fn link_parts(target: &Path) -> Vec<OsString> {
    target
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn components(path: &str) -> Result<VecDeque<OsString>, TreeError> {
    let bad = || TreeError::BadPath(path.to_owned());
    let below = path.strip_prefix('/').ok_or_else(bad)?;
    if below.contains('\0') || below.ends_with('/') {
        return Err(bad());
    }
    Path::new(below)
        .components()
        .map(|part| match part {
            Component::Normal(name) => Ok(name.to_owned()),
            _ => Err(bad()),
        })
        .collect()
}

fn failed(doing: &'static str, path: &str) -> impl Fn(Errno) -> TreeError + use<> {
    let path = path.to_owned();
    move |errno| TreeError::Io { doing, path: path.clone(), source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn me() -> Owner {
        Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    #[test]
    fn absolute_links_stay_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("usr/lib")).unwrap();
        symlink("/usr/lib", root.path().join("lib")).unwrap();
        let tree = Tree::open(root.path()).unwrap();
        tree.make_entry("/lib/a/b").unwrap().write(b"x", 0o644, me()).unwrap();
        assert_eq!(std::fs::read(root.path().join("usr/lib/a/b")).unwrap(), b"x");
    }

    #[test]
    fn links_of_users_are_not_followed() {
        if me().uid != 0 {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("home/ann")).unwrap();
        std::fs::create_dir_all(root.path().join("root")).unwrap();
        let link = root.path().join("home/ann/.ssh");
        symlink("/root", &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(1000), Some(1000)).unwrap();
        let tree = Tree::open(root.path()).unwrap();
        assert!(matches!(tree.make_entry("/home/ann/.ssh/authorized_keys"), Err(TreeError::ForeignLink(_))));
    }

    #[test]
    fn paths_must_be_absolute_and_plain() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::open(root.path()).unwrap();
        for path in ["", "/", "etc/hosts", "/etc/../x", "/etc/"] {
            assert!(matches!(tree.entry(path), Err(TreeError::BadPath(_))), "{path}");
        }
        assert!(tree.entry("/no/such").unwrap().is_none());
    }

    #[test]
    fn the_final_link_is_replaced_and_no_temporary_stays() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("target"), "keep").unwrap();
        symlink("target", root.path().join("name")).unwrap();
        let tree = Tree::open(root.path()).unwrap();
        tree.make_entry("/name").unwrap().write(b"new", 0o600, me()).unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("target")).unwrap(), "keep");
        assert_eq!(std::fs::read_to_string(root.path().join("name")).unwrap(), "new");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
