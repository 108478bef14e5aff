//! Where a mount comes from and what is mounted now. Nothing here changes anything.

use std::path::{Path, PathBuf};

use kiln_wire::bundle::MountSource;

/// The local cloud gives volumes as directories here.
const VOLUME_DIRECTORIES: &str = "/mnt/volumes";
const BY_ID: &str = "/dev/disk/by-id";
const BY_LABEL: &str = "/dev/disk/by-label";
/// A virtio disk shows this many characters of its serial, which is the volume's id.
const VIRTIO_SERIAL: usize = 20;
/// The longest label of an ext4 file system.
const LABEL: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("`{0}` is not a name of a volume")]
    BadVolume(String),
    #[error("`{0}` is not of the form SERVER:/PATH")]
    BadNfs(String),
    #[error("`{0}` is neither a volume nor an export of the cluster")]
    OfSite(String),
    #[error("volume `{0}` is not attached to this node")]
    NotAttached(String),
    #[error("volume `{name}` is ambiguous: {found}")]
    Ambiguous { name: String, found: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Directory(PathBuf),
    Device(PathBuf),
    Nfs { export: String, version: NfsVersion },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NfsVersion {
    /// One port, and no services of the client's own.
    Four,
    /// What Oracle's File Storage speaks.
    Three,
}

pub(crate) fn find(source: &MountSource) -> Result<Source, SourceError> {
    match source {
        MountSource::Nfs(export) => find_export(export, NfsVersion::Four),
        MountSource::Nfs3(export) => find_export(export, NfsVersion::Three),
        MountSource::Volume(name) => find_volume(name, Path::new("/")),
        MountSource::Site(mount) => Err(SourceError::OfSite(mount.source.clone())),
    }
}

fn find_export(export: &str, version: NfsVersion) -> Result<Source, SourceError> {
    let valid =
        export.split_once(":/").is_some_and(|(server, _)| !server.is_empty() && !server.starts_with('-'));
    let plain = export.bytes().all(|byte| byte.is_ascii_graphic());
    if valid && plain {
        Ok(Source::Nfs { export: export.to_owned(), version })
    } else {
        Err(SourceError::BadNfs(export.to_owned()))
    }
}

fn find_volume(name: &str, root: &Path) -> Result<Source, SourceError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || name.starts_with(['.', '-']) || !name.bytes().all(allowed) {
        return Err(SourceError::BadVolume(name.to_owned()));
    }
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let directory = below(VOLUME_DIRECTORIES).join(name);
    if directory.is_dir() {
        return Ok(Source::Directory(directory));
    }
    let serial = short(name, VIRTIO_SERIAL);
    let exact = [below(BY_ID).join(format!("virtio-{serial}")), below(BY_LABEL).join(label(name))];
    if let Some(device) = exact.into_iter().find(|path| path.exists()) {
        return Ok(Source::Device(device));
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(below(BY_ID))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains(name))
        .filter_map(|entry| std::fs::canonicalize(entry.path()).ok())
        .collect();
    found.sort();
    found.dedup();
    match found.as_slice() {
        [] => Err(SourceError::NotAttached(name.to_owned())),
        [device] => Ok(Source::Device(device.clone())),
        several => {
            let several: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            Err(SourceError::Ambiguous { name: name.to_owned(), found: several.join(", ") })
        }
    }
}

/// The label given to a volume when it is formatted, by which it is found again.
pub(crate) fn label(name: &str) -> &str {
    short(name, LABEL)
}

/// What tells a volume from others in so many bytes. Ids of Oracle Cloud all begin in the same way, and end in their own.
fn short(name: &str, length: usize) -> &str {
    let own = if name.starts_with("ocid1.") {
        name.get(name.len().saturating_sub(length)..)
    } else {
        name.get(..length)
    };
    own.unwrap_or(name)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mounted {
    pub device: String,
    pub source: String,
    pub read_only: bool,
    /// Set-user-id programs and devices on it have no effect.
    pub inert: bool,
    /// Limits of users are enforced.
    pub quota: bool,
}

/// What is mounted at a path: the last mount there hides those below it.
pub(crate) fn mounted_at(target: &str) -> std::io::Result<Option<Mounted>> {
    std::fs::read_to_string("/proc/self/mountinfo").map(|table| search(&table, target))
}

fn search(table: &str, target: &str) -> Option<Mounted> {
    table.lines().rev().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let filesystem: Vec<&str> = filesystem.split(' ').collect();
        let has = |options: &str, wanted: &str| options.split(',').any(|option| option == wanted);
        (unescape(mount.get(4)?) == target).then_some(())?;
        let (options, of_all) = (*mount.get(5)?, *filesystem.get(2)?);
        Some(Mounted {
            device: (*mount.get(2)?).to_owned(),
            source: unescape(filesystem.get(1)?),
            read_only: has(options, "ro") || has(of_all, "ro"),
            inert: has(options, "nosuid") && has(options, "nodev"),
            quota: has(of_all, "usrquota"),
        })
    })
}

fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_found_as_directory_device_or_label() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        std::fs::create_dir_all(root.path().join("mnt/volumes/demo-home")).unwrap();
        assert_eq!(
            find_volume("demo-home", root.path()).unwrap(),
            Source::Directory(root.path().join("mnt/volumes/demo-home"))
        );
        let virtio = make("dev/disk/by-id/virtio-11f7c0e5-ea6c-4fd8-9");
        assert_eq!(
            find_volume("11f7c0e5-ea6c-4fd8-9bde-0123456789ab", root.path()).unwrap(),
            Source::Device(virtio)
        );
        let scsi = make("dev/disk/by-id/scsi-demo-state");
        assert_eq!(
            find_volume("demo-state", root.path()).unwrap(),
            Source::Device(scsi.canonicalize().unwrap())
        );
        make("dev/disk/by-id/other-demo-state");
        assert!(matches!(find_volume("demo-state", root.path()), Err(SourceError::Ambiguous { .. })));
        let labelled = make("dev/disk/by-label/demo-state");
        assert_eq!(find_volume("demo-state", root.path()).unwrap(), Source::Device(labelled));
        let [one, other] =
            ["one", "two"].map(|end| format!("ocid1.volume.oc1.phx.aaaaaaaaaaaaaaaaaaaa{end}"));
        let labelled = make("dev/disk/by-label/aaaaaaaaaaaaaone");
        assert_eq!(find_volume(&one, root.path()).unwrap(), Source::Device(labelled));
        assert!(matches!(find_volume(&other, root.path()), Err(SourceError::NotAttached(_))));
        assert!(matches!(find_volume("gone", root.path()), Err(SourceError::NotAttached(_))));
        assert!(matches!(find_volume("../etc", root.path()), Err(SourceError::BadVolume(_))));
    }

    #[test]
    fn exports_are_checked() {
        for kind in [MountSource::Nfs, MountSource::Nfs3] {
            assert!(find(&kind("10.0.0.1:/srv".into())).is_ok());
            for bad in ["server", ":/srv", "-o:/srv", "a:/b c"] {
                assert!(find(&kind(bad.into())).is_err(), "{bad}");
            }
        }
    }

    #[test]
    fn the_last_mount_counts() {
        let table = "22 1 0:20 / /a\\040b rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                     23 1 0:21 / /home rw,relatime - nfs4 control:/home rw,vers=4.2\n\
                     24 23 0:22 /x /home ro,nosuid,nodev,relatime - ext4 /dev/vdb rw,quota,usrquota\n";
        let home = search(table, "/home").unwrap();
        assert!(home.inert && !search(table, "/a b").unwrap().inert);
        assert_eq!((home.source.as_str(), home.read_only, home.device.as_str()), ("/dev/vdb", true, "0:22"));
        assert!(home.quota && !search(table, "/a b").unwrap().quota);
        assert_eq!(search(table, "/a b").unwrap().source, "/dev/vda1");
        assert_eq!(search(table, "/no"), None);
    }
}
