//! Where everything is on a disk: a GPT with the boot loader for BIOS, that for EFI, and the root file system. All ids
//! are derived from the image's, so that two exports of an image are the same.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};

pub const SECTOR: u64 = 512;
pub const MIB: u64 = 1 << 20;

const LOADER_START: u64 = MIB;
const LOADER_SIZE: u64 = MIB;
pub const EFI_START: u64 = LOADER_START + LOADER_SIZE;
pub const EFI_SIZE: u64 = 34 * MIB;
pub const ROOT_START: u64 = EFI_START + EFI_SIZE;
/// The second copy of the partition table.
const TAIL: u64 = MIB;

/// What is on the disk besides the root file system.
pub const AROUND_ROOT: u64 = ROOT_START + TAIL;

/// GRUB's code in the first sector; the partition table follows it.
const BOOT_CODE: usize = 440;
/// In it: the sector that the loader begins with.
const BOOT_TO_LOADER: usize = 0x5c;
/// In it: a jump that is only right on a floppy.
const BOOT_FLOPPY: usize = 0x66;
/// In the loader's first sector: where the others are, how many, and the segment that they are read to.
const LOADER_LIST: usize = 0x1f4;
const LOADER_SEGMENT: u16 = 0x820;

/// The ids of one image's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    image: String,
}

impl Ids {
    pub fn of(image: &str) -> Ids {
        Ids { image: image.to_string() }
    }

    /// For one purpose.
    pub fn uuid(&self, purpose: &str) -> String {
        let digest = Sha256::digest(format!("kiln disk\n{}\n{purpose}", self.image));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let text = hex::encode(bytes);
        let part = |range: std::ops::Range<usize>| &text[range];
        [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
    }

    /// Of a FAT file system: 8 digits.
    pub fn serial(&self) -> String {
        self.uuid("efi file system")[..8].to_string()
    }

    pub fn root_file_system(&self) -> String {
        self.uuid("root file system")
    }
}

/// For `sfdisk`, which makes the table of a disk of this size.
pub fn partition_table(ids: &Ids, size: u64) -> String {
    let partition = |name: &str, kind: &str, start: u64, size: u64| {
        let (start, size, id) = (start / SECTOR, size / SECTOR, ids.uuid(name));
        format!("start={start}, size={size}, type={kind}, uuid={id}, name={name}\n")
    };
    [
        format!("label: gpt\nlabel-id: {}\n", ids.uuid("disk")),
        partition("loader", "21686148-6449-6E6F-744E-656564454649", LOADER_START, LOADER_SIZE),
        partition("efi", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", EFI_START, EFI_SIZE),
        partition("root", "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", ROOT_START, size - AROUND_ROOT),
    ]
    .concat()
}

/// Writes GRUB where a BIOS starts it. `boot` and `core`: `boot.img` and `core.img`, as `grub-mkimage` made them.
pub fn write_loader(disk: &File, mut boot: Vec<u8>, mut core: Vec<u8>) -> io::Result<()> {
    let sectors = (core.len() as u64).div_ceil(SECTOR);
    if boot.len() as u64 != SECTOR || sectors < 2 || sectors * SECTOR > LOADER_SIZE {
        return Err(io::Error::other("the image has a boot loader that is not GRUB's"));
    }
    let first = LOADER_START / SECTOR;
    boot[BOOT_TO_LOADER..BOOT_TO_LOADER + 8].copy_from_slice(&first.to_le_bytes());
    boot[BOOT_FLOPPY..BOOT_FLOPPY + 2].copy_from_slice(&[0x90, 0x90]);
    let rest = u16::try_from(sectors - 1).map_err(io::Error::other)?;
    core[LOADER_LIST..LOADER_LIST + 8].copy_from_slice(&(first + 1).to_le_bytes());
    core[LOADER_LIST + 8..LOADER_LIST + 10].copy_from_slice(&rest.to_le_bytes());
    core[LOADER_LIST + 10..LOADER_LIST + 12].copy_from_slice(&LOADER_SEGMENT.to_le_bytes());
    disk.write_all_at(&boot[..BOOT_CODE], 0)?;
    disk.write_all_at(&core, LOADER_START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_images_own_and_stay() {
        let [a, b] = ["a", "b"].map(Ids::of);
        assert_eq!(a.uuid("root"), Ids::of("a").uuid("root"));
        assert_ne!(a.uuid("root"), b.uuid("root"));
        assert_ne!(a.uuid("root"), a.uuid("efi"));
        assert_eq!(a.uuid("root").len(), 36);
        assert_eq!(&a.uuid("root")[14..15], "8");
    }

    #[test]
    fn partitions_are_side_by_side_and_fit() {
        let table = partition_table(&Ids::of("a"), 1000 * MIB);
        let number = |line: &str, key: &str| -> u64 {
            let rest = line.split(key).nth(1).unwrap();
            rest.split(',').next().unwrap().parse().unwrap()
        };
        let mut end = 2048;
        for line in table.lines().filter(|line| line.starts_with("start=")) {
            assert_eq!(number(line, "start="), end, "{table}");
            end += number(line, " size=");
        }
        assert_eq!(end * SECTOR, 999 * MIB);
    }

    #[test]
    fn a_loader_that_does_not_fit_is_refused() {
        let disk = tempfile::tempfile().unwrap();
        assert!(write_loader(&disk, vec![0; 512], vec![0; 2 << 20]).is_err());
        assert!(write_loader(&disk, vec![0; 100], vec![0; 5000]).is_err());
        write_loader(&disk, vec![1; 512], vec![1; 5000]).unwrap();
        let mut list = [0; 12];
        disk.read_exact_at(&mut list, LOADER_START + 0x1f4).unwrap();
        assert_eq!(list, [1, 8, 0, 0, 0, 0, 0, 0, 9, 0, 0x20, 8]);
    }
}
