//! User quotas of a volume: the file system keeps count and limits in itself, and is told to do so once, while nobody uses it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use super::ApplyError;
use super::growth::field;
use super::session::Session;
use crate::process;

const LIMIT: Duration = Duration::from_secs(1800);
const HEAD: u64 = 4096;
const NFS_SERVER: &str = "nfs-server.service";
const WITHOUT: &str = "its file system has user quotas, which this kernel does not have; use an image whose kernel has the module quota_v2";

/// Whether the kernel can count and enforce them. One that cannot does not mount a file system that has them.
pub(crate) fn kernel_has() -> bool {
    let module = || process::run(&["modprobe", "--quiet", "quota_v2"], None, Duration::from_secs(60));
    Path::new("/proc/sys/fs/quota").exists() && module().is_ok_and(|output| output.success())
}

/// What the file system on a device says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    No,
    /// It is not ext4.
    Never,
}

pub(super) fn kept(device: &Path) -> Result<Kept, ApplyError> {
    let failed = |source| ApplyError::Io { doing: format!("read `{}`", device.display()), source };
    let mut head = Vec::new();
    File::open(device).map_err(failed)?.take(HEAD).read_to_end(&mut head).map_err(failed)?;
    Ok(of_superblock(head.get(1024..).unwrap_or_default()).unwrap_or(Kept::Never))
}

fn of_superblock(block: &[u8]) -> Option<Kept> {
    if u16::from_le_bytes(field(block, 0x38)?) != 0xEF53 {
        return None;
    }
    let has_feature = u32::from_le_bytes(field(block, 0x64)?) & 0x100 != 0;
    let has_users = u32::from_le_bytes(field(block, 0x240)?) != 0;
    Some(if has_feature && has_users { Kept::Yes } else { Kept::No })
}

/// Before a file system is mounted: that this kernel can.
pub(super) fn check(device: &Path) -> Result<(), ApplyError> {
    if kept(device)? == Kept::Yes && !kernel_has() {
        return Err(ApplyError::Refused(WITHOUT.into()));
    }
    Ok(())
}

/// The file system must not be mounted. What is there is counted, and stays as it is.
pub(super) fn begin(device: &Path) -> Result<(), ApplyError> {
    let device = device.to_string_lossy();
    // One whose node was cut off is made whole first. 1: it was.
    let checked = process::run(&["e2fsck", "-p", "--", &device], None, LIMIT)?;
    if checked.code != Some(1) {
        checked.checked()?;
    }
    process::run(&["tune2fs", "-Q", "usrquota", "--", &device], None, LIMIT)?.checked()?;
    Ok(())
}

/// Unmounts what is exported; `false`: somebody uses it. Clients wait until it is exported again.
pub(super) fn release(session: &mut Session, target: &str) -> Result<bool, ApplyError> {
    let is_served = session.units.is_running(NFS_SERVER)?;
    if is_served {
        session.units.change_state("stop", NFS_SERVER)?;
        session.units.forget();
    }
    let is_free = process::call(&["umount", "--", target]).is_ok();
    if is_served && !is_free {
        session.units.change_state("start", NFS_SERVER)?;
    }
    Ok(is_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file stands in for the device. Everything but the kernel's part is real.
    #[test]
    fn a_file_system_gets_quotas_once_and_keeps_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        File::create(&device).unwrap().set_len(64 << 20).unwrap();
        assert_eq!(kept(&device).unwrap(), Kept::Never);
        let path = device.display().to_string();
        let content = dir.path().join("content");
        std::fs::create_dir(&content).unwrap();
        std::fs::write(content.join("thesis"), "words").unwrap();
        let content = content.display().to_string();
        process::call(&["mkfs.ext4", "-q", "-d", &content, "--", &path]).unwrap();
        assert_eq!(kept(&device).unwrap(), Kept::No);
        for _ in 0..2 {
            begin(&device).unwrap();
            assert_eq!(kept(&device).unwrap(), Kept::Yes);
            process::call(&["e2fsck", "-f", "-n", "--", &path]).unwrap();
            let read = process::call(&["debugfs", "-R", "cat /thesis", &path]).unwrap();
            assert_eq!(read.stdout, "words");
        }
        assert_eq!(check(&device).is_ok(), kernel_has());
        assert!(begin(&dir.path().join("missing")).is_err());
    }
}
