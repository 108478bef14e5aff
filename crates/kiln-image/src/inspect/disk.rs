//! The root file system of a disk, read where it is: without mounts, and without rights of root.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ext4_view::{Ext4, Ext4Error, Ext4Read};

use super::InspectError;
use super::tree::{Kind, Tree};

const SECTOR: u64 = 512;
/// More than any table has: one that claims more is broken.
const MOST_PARTITIONS: u64 = 256;
/// Where a file system has its mark, what that is, and what the file system is called.
const EXT4: (u64, &[u8], &str) = (0x438, b"\x53\xef", "ext4");
/// Those that Kiln does not read.
const OTHERS: [(u64, &[u8], &str); 3] =
    [(0, b"XFSB", "XFS"), (0x1_0040, b"_BHRfS_M", "Btrfs"), (0x218, b"LVM2 001", "LVM")];

/// What a system starts from.
pub struct Disk(Ext4);

impl Disk {
    /// The first file system of a raw disk that a system is on.
    pub fn open(disk: &File) -> Result<Disk, InspectError> {
        let starts = partitions(disk).map_err(InspectError::Unreadable)?;
        let is_there = |start: u64, (at, mark, _): (u64, &[u8], _)| {
            let mut found = vec![0; mark.len()];
            disk.read_exact_at(&mut found, start.saturating_add(at)).is_ok() && found == mark
        };
        for start in &starts {
            let part = Part { disk: disk.try_clone().map_err(InspectError::Unreadable)?, start: *start };
            match Ext4::load(Box::new(part)) {
                Ok(system) if system.symlink_metadata("/etc/passwd").is_ok() => return Ok(Disk(system)),
                Err(error) if is_there(*start, EXT4) => return Err(InspectError::Unreadable(error.into())),
                _ => {}
            }
        }
        let other =
            starts.iter().flat_map(|start| OTHERS.into_iter().filter(|other| is_there(*start, *other)));
        Err(InspectError::NoSystem { instead: other.map(|(_, _, name)| name).next() })
    }
}

/// Where partitions begin, in bytes. A disk without a table may be one file system.
fn partitions(disk: &File) -> io::Result<Vec<u64>> {
    let (mut mbr, mut header) = ([0; 512], [0; 512]);
    disk.read_exact_at(&mut mbr, 0)?;
    disk.read_exact_at(&mut header, SECTOR)?;
    if !header.starts_with(b"EFI PART") {
        let entries = mbr[446..510].chunks_exact(16).map(|entry| u64::from(number(&entry[8..12])));
        let marked = if mbr[510..] == [0x55, 0xaa] { entries.collect() } else { Vec::new() };
        let starts = marked.into_iter().filter(|start| *start > 0).map(|start| start * SECTOR);
        return Ok(starts.chain([0]).collect());
    }
    let (table, size) = (long(&header[72..80]), u64::from(number(&header[84..88])));
    let count = u64::from(number(&header[80..84])).min(MOST_PARTITIONS);
    let mut starts = Vec::new();
    for index in 0..count {
        let mut entry = [0; 48];
        let at = table.saturating_mul(SECTOR).saturating_add(index * size);
        disk.read_exact_at(&mut entry, at)?;
        let is_used = entry[..16].iter().any(|byte| *byte != 0);
        if is_used {
            starts.push(long(&entry[32..40]).saturating_mul(SECTOR));
        }
    }
    Ok(starts)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte))
}

fn long(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// The part of a disk from some byte on.
struct Part {
    disk: File,
    start: u64,
}

impl Ext4Read for Part {
    fn read(
        &mut self,
        at: u64,
        into: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync + 'static>> {
        self.disk.read_exact_at(into, self.start.saturating_add(at)).map_err(Into::into)
    }
}

impl Tree for Disk {
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match self.0.symlink_metadata(path) {
            Ok(data) if data.is_dir() => Ok(Some(Kind::Directory)),
            Ok(data) if data.file_type().is_regular_file() => Ok(Some(Kind::File { bytes: data.len() })),
            Ok(_) => Ok(Some(Kind::Other)),
            Err(Ext4Error::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in self.0.read_dir(directory)? {
            let name = entry?.file_name().as_ref().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.0.open(path)?.take(most).read_to_end(&mut content)?;
        Ok(content)
    }
}
