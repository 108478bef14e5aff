//! Ids and names. Names reach command lines and file names, so they are checked at the door.

use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// A random UUID.
pub fn new_id() -> String {
    let n = (rand::random::<u128>() & !(0xf000_c000_u128 << 48)) | (0x4000_8000_u128 << 48);
    let h = format!("{n:032x}");
    format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
}

/// `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`, at most 63 characters: what DNS and Slurm accept as a node name.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = name.len() <= 63
        && name.starts_with(plain)
        && name.ends_with(plain)
        && name.chars().all(|c| plain(c) || c == '-');
    if good {
        Ok(())
    } else {
        Err(Error::Invalid(format!("`{}` is not a valid name", name.escape_default())))
    }
}

pub fn sha256_hex(data: &[u8]) -> String {
    hex::encode(Sha256::digest(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "n1", "compute-0", "0"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a b", "a/b", "a.b", "../x", "a\n", &"x".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_are_version_4_uuids() {
        let id = new_id();
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        assert_ne!(id, new_id());
    }
}
