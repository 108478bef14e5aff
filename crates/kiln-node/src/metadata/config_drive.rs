//! The config drive: a directory on the local cloud, a small disk labelled `config-2` elsewhere.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::openstack::{Documents, parse};
use super::{Metadata, MetadataError, Origin, Sources};
use crate::process;

const DEVICES: [&str; 2] = ["/dev/disk/by-label/config-2", "/dev/disk/by-label/CONFIG-2"];
/// There while udev runs, which it does not on the local cloud.
const UDEV: &str = "/run/udev/control";
const MOUNT_POINT: &str = "/run/kiln-config-drive";

pub(super) fn read(sources: &Sources) -> Result<Option<Metadata>, MetadataError> {
    let documents = match read_directory(&sources.directory)? {
        None if sources.device => read_device()?,
        found => found,
    };
    documents.map(|documents| parse(&documents, Origin::ConfigDrive)).transpose()
}

/// `None` when there is no drive.
fn read_directory(directory: &Path) -> Result<Option<Documents>, MetadataError> {
    let Some(meta_data) = read_file(&directory.join("meta_data.json"))? else {
        return Ok(None);
    };
    let user_data = read_file(&directory.join("user_data"))?;
    Ok(Some(Documents { meta_data, user_data }))
}

/// Mounted only while it is read: it holds keys.
fn read_device() -> Result<Option<Documents>, MetadataError> {
    let find = || DEVICES.into_iter().find(|path| Path::new(path).exists());
    let found = find().or_else(|| {
        await_devices();
        find()
    });
    let Some(device) = found else { return Ok(None) };
    let point = PathBuf::from(MOUNT_POINT);
    // The mount covers the directory's own mode, so nobody may pass through its parent of the same name.
    let inner = point.join("drive");
    std::fs::create_dir_all(&inner).map_err(MetadataError::Drive)?;
    std::fs::set_permissions(&point, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .map_err(MetadataError::Drive)?;
    let target = inner.to_string_lossy();
    process::call(&["mount", "--options", "ro,nosuid,nodev,noexec", "--", device, &target])
        .map_err(|error| MetadataError::Mount(crate::explain(&error)))?;
    let documents = read_directory(&inner.join("openstack/latest"));
    let _ = process::call(&["umount", "--", &target]);
    documents
}

/// At boot udev may not have come to the drive yet. An instance without a drive waits only for the devices that it has.
fn await_devices() {
    if Path::new(UDEV).exists() {
        let appears = format!("--exit-if-exists={}", DEVICES[0]);
        let _ = process::call(&["udevadm", "settle", "--timeout=30", &appears]);
    }
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, MetadataError> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(MetadataError::Drive(error)),
    }
}
