//! Times in an ext4 file system that `mke2fs -d` has just made. It takes over when a file was last read and when its
//! inode last changed, which for a link into a layer is the moment of the export. Both become the time of the last
//! modification, so that two exports of an image are the same.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

const SUPERBLOCK: u64 = 1024;
const MAGIC: u16 = 0xef53;
/// Feature flags.
const BITS_64: u32 = 0x80;
const CHECKSUMS: u32 = 0x400;

/// Where numbers are in an inode.
const ACCESS: usize = 0x08;
const CHANGE: usize = 0x0c;
const MODIFICATION: usize = 0x10;
const GENERATION: usize = 0x64;
const CHECKSUM_LOW: usize = 0x7c;
const EXTRA_SIZE: usize = 0x80;
const CHECKSUM_HIGH: usize = 0x82;
const CHANGE_EXTRA: usize = 0x84;
const MODIFICATION_EXTRA: usize = 0x88;
const ACCESS_EXTRA: usize = 0x8c;
const CREATION: usize = 0x90;
const CREATION_EXTRA: usize = 0x94;

/// `start`: where in the file the file system is.
pub fn settle_times(disk: &File, start: u64) -> io::Result<()> {
    let mut superblock = [0; 1024];
    disk.read_exact_at(&mut superblock, start + SUPERBLOCK)?;
    let (inode_size, inodes) = (u16_at(&superblock, 0x58), u32_at(&superblock, 0x28));
    let has = |at, flag| u32_at(&superblock, at) & flag != 0;
    if u16_at(&superblock, 0x38) != MAGIC || inode_size != 256 || !has(0x60, BITS_64) || !has(0x64, CHECKSUMS)
    {
        return Err(io::Error::other("mke2fs made a file system with other features than asked for"));
    }
    let block = 1024_u64 << u32_at(&superblock, 0x18);
    let groups = u32_at(&superblock, 0).div_ceil(inodes);
    let seed = crc32c(!0, &superblock[0x68..0x78]);

    let mut table = vec![0; usize::try_from(u64::from(inodes) * 256).map_err(io::Error::other)?];
    for group in 0..groups {
        let mut descriptor = [0; 64];
        // They begin in the block behind that of the superblock.
        disk.read_exact_at(&mut descriptor, start + block + u64::from(group) * 64)?;
        let number = u64::from(u32_at(&descriptor, 8)) | u64::from(u32_at(&descriptor, 0x28)) << 32;
        let place = start + number * block;
        disk.read_exact_at(&mut table, place)?;
        for (inode, at) in table.chunks_exact_mut(256).zip(1_u32..) {
            settle(inode, group * inodes + at, seed);
        }
        disk.write_all_at(&table, place)?;
    }
    Ok(())
}

fn settle(inode: &mut [u8], number: u32, seed: u32) {
    // Never used.
    if u16_at(inode, EXTRA_SIZE) == 0 {
        return;
    }
    for to in [ACCESS, CHANGE, CREATION] {
        inode.copy_within(MODIFICATION..MODIFICATION + 4, to);
    }
    for to in [ACCESS_EXTRA, CHANGE_EXTRA, CREATION_EXTRA] {
        inode.copy_within(MODIFICATION_EXTRA..MODIFICATION_EXTRA + 4, to);
    }
    for at in [CHECKSUM_LOW, CHECKSUM_HIGH] {
        inode[at..at + 2].fill(0);
    }
    let own = crc32c(crc32c(seed, &number.to_le_bytes()), &inode[GENERATION..GENERATION + 4]);
    let [a, b, c, d] = crc32c(own, inode).to_le_bytes();
    inode[CHECKSUM_LOW..CHECKSUM_LOW + 2].copy_from_slice(&[a, b]);
    inode[CHECKSUM_HIGH..CHECKSUM_HIGH + 2].copy_from_slice(&[c, d]);
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// As ext4 uses it: without the final inversion.
fn crc32c(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        sum >> 8 ^ TABLE[usize::from(low ^ byte)]
    })
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        #[allow(clippy::cast_possible_truncation, reason = "at most 255")]
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn what_is_no_file_system_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let error = settle_times(&file, 0).unwrap_err();
        assert!(error.to_string().contains("other features"), "{error}");
    }
}
