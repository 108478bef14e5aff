//! The file system of a volume that the cloud has made larger grows with it, while it is in use.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::ApplyError;
use crate::process;

const LIMIT: Duration = Duration::from_secs(1800);
/// Clouds count volumes in GiB, and a file system may leave out an end that is too small for it.
const LEAST: u64 = 256 << 20;
/// Where all that is read of a file system begins and ends.
const HEAD: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ext4,
    Xfs,
}

/// What is to grow, if the device has become larger than its file system.
pub(super) struct Growth {
    kind: Kind,
}

impl Growth {
    pub fn of(device: &Path) -> Result<Option<Growth>, ApplyError> {
        let failed = |source| ApplyError::Io { doing: format!("read `{}`", device.display()), source };
        let mut file = File::open(device).map_err(failed)?;
        let mut head = Vec::new();
        Read::by_ref(&mut file).take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let found = file_system(&head);
        Ok(found.filter(|(_, bytes)| size >= bytes.saturating_add(LEAST)).map(|(kind, _)| Growth { kind }))
    }

    /// It must be mounted.
    pub fn carry_out(&self, device: &Path, target: &str) -> Result<(), ApplyError> {
        let argv: Vec<String> = match self.kind {
            Kind::Ext4 => vec!["resize2fs".into(), device.display().to_string()],
            Kind::Xfs => vec!["xfs_growfs".into(), target.into()],
        };
        process::run(&argv, None, LIMIT)?.checked()?;
        Ok(())
    }
}

/// The kind and size of the file system that begins so; `None`: one that Kiln does not grow.
fn file_system(head: &[u8]) -> Option<(Kind, u64)> {
    if head.starts_with(b"XFSB") {
        let block = u32::from_be_bytes(field(head, 4)?);
        let blocks = u64::from_be_bytes(field(head, 8)?);
        return Some((Kind::Xfs, blocks.checked_mul(block.into())?));
    }
    // The superblock of ext4 is behind 1024 bytes that are not its own.
    let of = head.get(1024..)?;
    if u16::from_le_bytes(field(of, 0x38)?) != 0xEF53 {
        return None;
    }
    let many = u32::from_le_bytes(field(of, 0x60)?) & 0x80 != 0;
    let high = if many { u32::from_le_bytes(field(of, 0x150)?) } else { 0 };
    let blocks = u64::from(high) << 32 | u64::from(u32::from_le_bytes(field(of, 4)?));
    let block = 1024_u64.checked_shl(u32::from_le_bytes(field(of, 0x18)?))?;
    Some((Kind::Ext4, blocks.checked_mul(block)?))
}

pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file stands in for the device.
    #[test]
    fn a_device_that_has_grown_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        let file = File::create(&device).unwrap();
        file.set_len(64 << 20).unwrap();
        let path = device.display().to_string();
        process::call(&["mkfs.ext4", "-q", "--", &path]).unwrap();
        assert!(Growth::of(&device).unwrap().is_none());
        // As much as the end of a device that a file system leaves out.
        file.set_len(65 << 20).unwrap();
        assert!(Growth::of(&device).unwrap().is_none());
        file.set_len(1 << 30).unwrap();
        let growth = Growth::of(&device).unwrap().unwrap();
        assert_eq!(growth.kind, Kind::Ext4);
        // One that is not mounted is checked first.
        process::call(&["e2fsck", "-f", "-p", &path]).unwrap();
        growth.carry_out(&device, "/").unwrap();
        assert!(Growth::of(&device).unwrap().is_none(), "it is as large as its device");
    }

    #[test]
    fn file_systems_are_known_by_their_first_bytes() {
        let mut xfs = b"XFSB".to_vec();
        xfs.extend(4096_u32.to_be_bytes());
        xfs.extend(1000_u64.to_be_bytes());
        assert_eq!(file_system(&xfs), Some((Kind::Xfs, 4_096_000)));
        assert_eq!(file_system(&[0; HEAD]), None);
        assert_eq!(file_system(b"XFSB"), None);
        assert_eq!(file_system(&[]), None);
    }
}
