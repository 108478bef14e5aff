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
        Err(Error::refused(format!("`{}` is not a valid name", name.escape_default())))
    }
}

/// Of a volume: several such names with dots between them, as ids of other clouds are.
pub fn check_volume_name(name: &str) -> Result<()> {
    check_name(&name.replace('.', "-"))?;
    name.split('.').try_for_each(check_name)
}

/// A hardware address for whatever has the id, always the same. Locally administered: no maker has it.
pub fn mac(id: &str) -> String {
    let d = Sha256::digest(id.as_bytes());
    format!("02:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", d[0], d[1], d[2], d[3], d[4])
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
    fn names_of_volumes() {
        for good in ["demo-state", "ocid1.volume.oc1.phx.aaaa"] {
            assert!(check_volume_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a..b", ".a", "a.", "a./b", &format!("a.{}", "x".repeat(62))] {
            assert!(check_volume_name(bad).is_err(), "{bad}");
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

    #[test]
    fn hardware_addresses_follow_the_id() {
        let mac_of = |n: u8| mac(&format!("123e4567-e89b-42d3-a456-42661417400{n}"));
        assert_eq!(mac_of(0), mac_of(0));
        assert_ne!(mac_of(0), mac_of(1));
        assert!(mac_of(0).starts_with("02:") && mac_of(0).len() == 17, "{}", mac_of(0));
    }
}
