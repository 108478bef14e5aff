//! A name in a directory, and what can be done with it without anyone changing what the name stands for.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::{Owner, TreeError, failed};

/// A name in a directory that exists; the name itself may not.
pub(crate) struct Entry {
    pub(super) dir: OwnedFd,
    pub(super) name: OsString,
    pub(super) path: String,
}

impl Entry {
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
        let fd =
            rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty()).map_err(self.failed("read"))?;
        let mut content = Vec::new();
        File::from(fd).read_to_end(&mut content).map_err(self.failed_io("read"))?;
        Ok(content)
    }

    pub fn read_link(&self) -> Result<String, TreeError> {
        let target =
            rustix::fs::readlinkat(&self.dir, &self.name, Vec::new()).map_err(self.failed("read"))?;
        Ok(String::from_utf8_lossy(&target.into_bytes()).into_owned())
    }

    /// Replaces whatever file or link has this name: the new one appears complete, with its owner and mode.
    pub fn write(&self, content: &[u8], mode: u32, owner: Owner) -> Result<(), TreeError> {
        let temporary = self.temporary();
        let written = self.write_as(&temporary, content, mode, owner).and_then(|()| {
            rustix::fs::renameat(&self.dir, &temporary, &self.dir, &self.name).map_err(self.failed("replace"))
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
        }
        written
    }

    fn write_as(&self, temporary: &OsStr, content: &[u8], mode: u32, owner: Owner) -> Result<(), TreeError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || rustix::fs::openat(&self.dir, temporary, flags, Mode::from_raw_mode(0o600));
        let fd = match create() {
            Err(Errno::EXIST) => {
                // Left by a run that was killed; a process id comes round again.
                rustix::fs::unlinkat(&self.dir, temporary, AtFlags::empty()).map_err(self.failed("write"))?;
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
        let fd =
            rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty()).map_err(self.failed("open"))?;
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
        rustix::fs::chownat(&self.dir, &temporary, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            .and_then(|()| rustix::fs::renameat(&self.dir, &temporary, &self.dir, &self.name))
            .map_err(|error| {
                let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
                self.failed("replace")(error)
            })
    }

    /// Moves to another name; fails when that name is taken.
    pub fn rename_to(&self, other: &Entry) -> Result<(), TreeError> {
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
        move |source| TreeError::Io { doing, path: path.clone(), source }
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
        rustix::fs::fchown(&fd, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?;
    }
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))
}
