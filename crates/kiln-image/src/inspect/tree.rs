//! A tree of files that is looked into: a directory of this machine, or a file system on a disk.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File { bytes: u64 },
    Other,
}

/// Paths begin with `/`, which is the root of the image. Symbolic links are not followed: they would lead out of the image.
pub trait Tree {
    /// `None`: there is nothing.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// The beginning of a file.
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>>;
}

/// The directory where the image's root is on this machine.
pub struct Directory<'a>(pub &'a Path);

impl Directory<'_> {
    fn at(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Tree for Directory<'_> {
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match fs::symlink_metadata(self.at(path)) {
            Ok(data) if data.is_dir() => Ok(Some(Kind::Directory)),
            Ok(data) if data.is_file() => Ok(Some(Kind::File { bytes: data.len() })),
            Ok(_) => Ok(Some(Kind::Other)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(self.at(directory))?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        fs::File::open(self.at(path))?.take(most).read_to_end(&mut content)?;
        Ok(content)
    }
}
