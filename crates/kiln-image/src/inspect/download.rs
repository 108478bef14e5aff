//! An image that the cloud has as a disk is downloaded to be looked into. The files that it is in have no names: nothing is left of
//! them, however this ends.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use kiln_cloud::{Cloud, Image};
use kiln_distro::Family;
use tokio_util::sync::CancellationToken;

use super::disk::Disk;
use super::{Fault, InspectError, faults_in};
use crate::disk::{ExportError, Tools};
use crate::progress::{Event, Progress};

/// How a disk in this format begins.
const QCOW2: [u8; 4] = *b"QFI\xfb";

/// Where large files may be for a while. Some hosts have `/tmp` in memory.
pub fn work_dir() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// All that is wrong with an image that the cloud has as a disk.
pub async fn inspect_disk(
    cloud: &Cloud,
    image: &Image,
    family: &'static Family,
    progress: Progress<'_>,
    stop: &CancellationToken,
) -> Result<Vec<Fault>, InspectError> {
    let say = |text: String| progress(Event::working(format!("image {}", image.name), text));
    let dir = work_dir();
    let packed = unnamed(&dir)?;
    check_room(&dir, image.size_bytes)?;
    say(format!("downloading {} MiB", image.size_bytes >> 20));
    let downloaded = stop.run_until_cancelled(cloud.download_image(&image.id, &packed)).await;
    downloaded.ok_or(ExportError::Stopped)??;
    let disk = unpacked(packed, &dir, stop).await?;
    say("looking into it".into());
    let looked = tokio::task::spawn_blocking(move || {
        let disk = Disk::open(&disk)?;
        faults_in(&disk, family).map_err(InspectError::Unreadable)
    });
    looked.await.map_err(|panicked| InspectError::Unreadable(std::io::Error::other(panicked)))?
}

fn unnamed(dir: &Path) -> Result<File, InspectError> {
    tempfile::tempfile_in(dir).map_err(|source| InspectError::NoWorkDir { dir: dir.to_path_buf(), source })
}

fn check_room(dir: &Path, needed: u64) -> Result<(), InspectError> {
    let found = rustix::fs::statvfs(dir)
        .map_err(|error| InspectError::NoWorkDir { dir: dir.to_path_buf(), source: error.into() })?;
    let free = found.f_bavail * found.f_frsize;
    if free < needed {
        return Err(InspectError::NoRoom { dir: dir.to_path_buf(), free, needed });
    }
    Ok(())
}

/// The disk as a machine sees it.
pub(super) async fn unpacked(disk: File, dir: &Path, stop: &CancellationToken) -> Result<File, InspectError> {
    let mut start = [0; QCOW2.len()];
    disk.read_exact_at(&mut start, 0).map_err(InspectError::Unreadable)?;
    if start != QCOW2 {
        return Ok(disk);
    }
    let raw = unnamed(dir)?;
    let path = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let tools = Tools::find(&["qemu-img"], 0, stop)?;
    tools
        .run(&["qemu-img", "convert", "-f", "qcow2", "-O", "raw", &path(&disk), &path(&raw)], "", &[])
        .await?;
    Ok(raw)
}
