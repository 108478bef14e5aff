//! The file tree that is being configured, below a root.
//!
//! Root writes into directories that users own (their homes), so a path is walked one component at a time and
//! a symbolic link on the way is followed only when root made it. The final component is never followed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

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
    Io {
        doing: &'static str,
        path: String,
        source: io::Error,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

pub(crate) struct Tree {
    root: OwnedFd,
}

/// A name in a directory that exists; the name itself may not.
pub(crate) struct Place {
    dir: OwnedFd,
    name: OsString,
    path: String,
}

impl Tree {
    pub fn open(root: &Path) -> Result<Self, TreeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .map_err(failed("open", &root.display().to_string()))?;
        Ok(Tree { root })
    }

    /// `None` when a parent directory is missing.
    pub fn place(&self, path: &str) -> Result<Option<Place>, TreeError> {
        self.locate(path, false)
    }

    /// Like `place`, after making the missing parents, 0755.
    pub fn make_place(&self, path: &str) -> Result<Place, TreeError> {
        self.locate(path, true)?
            .ok_or_else(|| TreeError::BadPath(path.to_owned()))
    }

    /// The content of a regular file; `None` when there is none.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, TreeError> {
        let Some(place) = self.place(path)? else {
            return Ok(None);
        };
        match place.stat()? {
            Some(stat) if kind(&stat) == FileType::RegularFile => place.read().map(Some),
            _ => Ok(None),
        }
    }

    fn locate(&self, path: &str, make: bool) -> Result<Option<Place>, TreeError> {
        let mut parts = components(path)?;
        let name = parts
            .pop_back()
            .ok_or_else(|| TreeError::BadPath(path.to_owned()))?;
        let dir = self.walk(parts, make, path)?;
        Ok(dir.map(|dir| Place {
            dir,
            name,
            path: path.to_owned(),
        }))
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
                    let mode = Mode::from_raw_mode(0o755);
                    match rustix::fs::mkdirat(here, &part, mode) {
                        Ok(()) => rustix::fs::chmodat(here, &part, mode, AtFlags::empty())
                            .map_err(failed("make the parents of", path))?,
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(failed("make the parents of", path)(error)),
                    }
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
            None => self
                .root
                .try_clone()
                .map(Some)
                .map_err(|source| TreeError::Io {
                    doing: "open the parents of",
                    path: path.to_owned(),
                    source,
                }),
        }
    }
}

impl Place {
    pub fn stat(&self) -> Result<Option<Stat>, TreeError> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed("look at")(error)),
        }
    }

    pub fn read(&self) -> Result<Vec<u8>, TreeError> {
        // Non-blocking, so that a pipe put in the place of a file cannot hold the apply up.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty())
            .map_err(self.failed("read"))?;
        let mut content = Vec::new();
        File::from(fd)
            .read_to_end(&mut content)
            .map_err(self.failed_io("read"))?;
        Ok(content)
    }

    pub fn read_link(&self) -> Result<String, TreeError> {
        let target = rustix::fs::readlinkat(&self.dir, &self.name, Vec::new())
            .map_err(self.failed("read"))?;
        Ok(String::from_utf8_lossy(&target.into_bytes()).into_owned())
    }

    /// Replaces whatever file or link has this name: the new one appears complete, with its owner and mode.
    pub fn write(&self, content: &[u8], mode: u32, owner: Owner) -> Result<(), TreeError> {
        let temporary = self.temporary();
        let written = self
            .write_as(&temporary, content, mode, owner)
            .and_then(|()| {
                rustix::fs::renameat(&self.dir, &temporary, &self.dir, &self.name)
                    .map_err(self.failed("replace"))
            });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
        }
        written
    }

    fn write_as(
        &self,
        temporary: &OsStr,
        content: &[u8],
        mode: u32,
        owner: Owner,
    ) -> Result<(), TreeError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || rustix::fs::openat(&self.dir, temporary, flags, Mode::from_raw_mode(0o600));
        let fd = match create() {
            Err(Errno::EXIST) => {
                // Left by a run that was killed; a process id comes round again.
                rustix::fs::unlinkat(&self.dir, temporary, AtFlags::empty())
                    .map_err(self.failed("write"))?;
                create()
            }
            other => other,
        };
        let mut file = File::from(fd.map_err(self.failed("write"))?);
        file.write_all(content).map_err(self.failed_io("write"))?;
        set_attributes(&file, mode, owner).map_err(self.failed("set owner and mode of"))?;
        file.sync_all().map_err(self.failed_io("write"))
    }

    /// Sets owner and mode of a regular file or a directory.
    pub fn set_attributes(&self, mode: u32, owner: Owner) -> Result<(), TreeError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty())
            .map_err(self.failed("open"))?;
        set_attributes(&fd, mode, owner).map_err(self.failed("set owner and mode of"))
    }

    pub fn make_directory(&self, mode: u32, owner: Owner) -> Result<(), TreeError> {
        rustix::fs::mkdirat(&self.dir, &self.name, Mode::from_raw_mode(0o700))
            .map_err(self.failed("make"))?;
        self.set_attributes(mode, owner)
    }

    /// Makes a symbolic link, in the place of a file or link of this name.
    pub fn link(&self, target: &str, owner: Owner) -> Result<(), TreeError> {
        let temporary = self.temporary();
        let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
        rustix::fs::symlinkat(target, &self.dir, &temporary).map_err(self.failed("make"))?;
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        rustix::fs::chownat(
            &self.dir,
            &temporary,
            Some(uid),
            Some(gid),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .and_then(|()| rustix::fs::renameat(&self.dir, &temporary, &self.dir, &self.name))
        .map_err(|error| {
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
            self.failed("replace")(error)
        })
    }

    /// Moves to another name; fails when that name is taken.
    pub fn rename_to(&self, other: &Place) -> Result<(), TreeError> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.dir, &self.name, &other.dir, &other.name, flags)
            .map_err(other.failed("make"))
    }

    pub fn remove(&self) -> Result<(), TreeError> {
        rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty()).map_err(self.failed("remove"))
    }

    fn temporary(&self) -> OsString {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".kiln-{}", std::process::id()));
        name
    }

    fn failed(&self, doing: &'static str) -> impl Fn(Errno) -> TreeError + use<> {
        failed(doing, &self.path)
    }

    fn failed_io(&self, doing: &'static str) -> impl Fn(io::Error) -> TreeError + use<> {
        let path = self.path.clone();
        move |source| TreeError::Io {
            doing,
            path: path.clone(),
            source,
        }
    }
}

pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(crate) fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

// A change of owner clears the set-id bits, so the mode comes last.
fn set_attributes(fd: impl std::os::fd::AsFd, mode: u32, owner: Owner) -> rustix::io::Result<()> {
    let now = rustix::fs::fstat(&fd)?;
    if (now.st_uid, now.st_gid) != (owner.uid, owner.gid) {
        rustix::fs::fchown(
            &fd,
            Some(Uid::from_raw(owner.uid)),
            Some(Gid::from_raw(owner.gid)),
        )?;
    }
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))
}

fn trusted_link(dir: &OwnedFd, name: &OsStr, path: &str) -> Result<std::path::PathBuf, TreeError> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(failed("look at", path))?;
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
    move |errno| TreeError::Io {
        doing,
        path: path.clone(),
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn me() -> Owner {
        Owner {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    #[test]
    fn absolute_links_stay_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("usr/lib")).unwrap();
        symlink("/usr/lib", root.path().join("lib")).unwrap();
        let tree = Tree::open(root.path()).unwrap();
        tree.make_place("/lib/a/b")
            .unwrap()
            .write(b"x", 0o644, me())
            .unwrap();
        assert_eq!(
            std::fs::read(root.path().join("usr/lib/a/b")).unwrap(),
            b"x"
        );
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
        assert!(matches!(
            tree.make_place("/home/ann/.ssh/authorized_keys"),
            Err(TreeError::ForeignLink(_))
        ));
    }

    #[test]
    fn paths_must_be_absolute_and_plain() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::open(root.path()).unwrap();
        for path in ["", "/", "etc/hosts", "/etc/../x", "/etc/"] {
            assert!(
                matches!(tree.place(path), Err(TreeError::BadPath(_))),
                "{path}"
            );
        }
        assert!(tree.place("/no/such").unwrap().is_none());
    }

    #[test]
    fn the_final_link_is_replaced_and_no_temporary_stays() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("target"), "keep").unwrap();
        symlink("target", root.path().join("name")).unwrap();
        let tree = Tree::open(root.path()).unwrap();
        tree.make_place("/name")
            .unwrap()
            .write(b"new", 0o600, me())
            .unwrap();
        assert_eq!(
            std::fs::read_to_string(root.path().join("target")).unwrap(),
            "keep"
        );
        assert_eq!(
            std::fs::read_to_string(root.path().join("name")).unwrap(),
            "new"
        );
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
