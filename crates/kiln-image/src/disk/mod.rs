//! A disk that boots by itself, by BIOS and by EFI, from an image of the local cloud. Without loop devices and mounts: the
//! root file system is filled by `mke2fs -d`. Two exports of an image are the same, byte by byte.

mod ext4;
mod layout;
mod sidecar;
mod tools;
mod tree;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use kiln_cloud::{Image, Layers};
use kiln_wire::{Format as _, Version};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempDir, TempPath};
use tokio_util::sync::CancellationToken;

use crate::manifest::Manifest;
use crate::progress::{Event, Progress};
use layout::{AROUND_ROOT, EFI_SIZE, EFI_START, Ids, MIB, ROOT_START};
pub use sidecar::{Sidecar, SidecarError};
pub(crate) use tools::Tools;
use tools::text;

/// mke2fs's own settings, so that those of the host do not matter. Boot loaders read these features.
const SETTINGS: &str = "[defaults]\n\
    base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr\n\
    blocksize = 4096\ninode_size = 256\ninode_ratio = 8192\n\
    [fs_types]\n\
    ext4 = {\nfeatures = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize\n}\n";
const JOURNAL: u64 = 64 * MIB;
/// For what a system writes before its root has grown.
const FREE: u64 = 192 * MIB;

/// What makes a disk.
const PROGRAMS: [&str; 6] = ["mke2fs", "sfdisk", "mkfs.vfat", "mmd", "mcopy", "qemu-img"];

/// Which the steps of a family that make an image bootable leave in the image.
const LOADER: &str = "boot/kiln";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskFormat {
    /// Compressed with zlib, which every QEMU reads.
    Qcow2,
    /// Compressed with zstd, for QEMU 5.1 and later.
    #[serde(rename = "qcow2-zstd")]
    Qcow2Zstd,
    Raw,
}

impl DiskFormat {
    fn name(self) -> &'static str {
        match self {
            DiskFormat::Qcow2 | DiskFormat::Qcow2Zstd => "qcow2",
            DiskFormat::Raw => "raw",
        }
    }

    /// What qemu-img is told besides, if it is to compress the disk.
    fn compression(self) -> Option<&'static [&'static str]> {
        match self {
            DiskFormat::Qcow2 => Some(&[]),
            DiskFormat::Qcow2Zstd => Some(&["-o", "compression_type=zstd"]),
            DiskFormat::Raw => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("this host lacks {programs}")]
    Missing { programs: String, packages: String },
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    #[error("{} is not UTF-8", .0.display())]
    Name(PathBuf),
    #[error("image {0} has no kernel and no boot loader")]
    NotBootable(String),
    #[error("the disk needs at least {} MiB", .0.div_ceil(MIB))]
    TooSmall(u64),
    #[error("{} has {} MiB free; the export needs {} MiB", path.display(), free / MIB, needed.div_ceil(MIB))]
    NoRoom { path: PathBuf, free: u64, needed: u64 },
    #[error("{program} failed: {why}")]
    Tool { program: String, why: String },
    #[error("cannot {did}")]
    File {
        did: String,
        #[source]
        source: io::Error,
    },
    #[error("stopped as requested")]
    Stopped,
}

impl ExportError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ExportError::Missing { packages, .. } => Some(format!("install them: apt install {packages}")),
            ExportError::Exists(_) => {
                Some("name another file with --output, or overwrite it with --force".into())
            }
            ExportError::NoRoom { .. } => Some("name a file on another file system with --output".into()),
            ExportError::TooSmall(_) => {
                Some("leave out --size: the root grows to its disk at first boot".into())
            }
            _ => None,
        }
    }
}

/// What is needed to make a disk of an image that [`crate::Recipe::bootable`] has made.
pub struct Export<'a> {
    pub image: &'a Image,
    pub manifest: &'a Manifest,
    /// The image's name in the file.
    pub name: &'a str,
    /// The bottom one first.
    pub layers: &'a [PathBuf],
    /// Where a directory may be made, on the file system of the layers.
    pub scratch: &'a Path,
    pub output: &'a Path,
    pub format: DiskFormat,
    /// Of the disk, in bytes.
    pub size: Option<u64>,
    /// Whether `output` may exist already.
    pub force: bool,
    pub progress: Progress<'a>,
    pub stop: &'a CancellationToken,
}

#[derive(Debug, Serialize)]
pub struct Exported {
    pub path: PathBuf,
    pub description: PathBuf,
    pub format: DiskFormat,
    pub image: String,
    pub file_bytes: u64,
    pub disk_bytes: u64,
    pub sha256: String,
}

/// Everything that can be known to go wrong before there is an image to export.
pub fn check(output: &Path, force: bool) -> Result<(), ExportError> {
    Tools::find(&PROGRAMS, 0, &CancellationToken::new())?;
    let directory = directory_of(output);
    if !directory.is_dir() {
        return Err(ExportError::NoDirectory(directory.to_path_buf()));
    }
    if output.is_dir() || !force && output.symlink_metadata().is_ok() {
        return Err(ExportError::Exists(output.to_path_buf()));
    }
    Ok(())
}

/// Looks at the layers as one tree, which is gone afterwards. Whoever looks must not change any file.
pub(crate) async fn stacked<T: Send + 'static>(
    layers: &Layers,
    stop: &CancellationToken,
    look: impl FnOnce(&Path) -> T + Send + 'static,
) -> Result<T, ExportError> {
    let work = Scratch::new(&layers.scratch)?;
    let (root, from, stop) = (work.path().join("root"), layers.directories.clone(), stop.clone());
    let looked = tokio::task::spawn_blocking(move || {
        tree::merge(&from, &root, &stop)?;
        io::Result::Ok(look(&root))
    });
    match looked.await {
        Ok(Ok(seen)) => Ok(seen),
        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => Err(ExportError::Stopped),
        Ok(Err(source)) => Err(did("stack the layers of the image")(source)),
        Err(panicked) => Err(did("stack the layers of the image")(io::Error::other(panicked))),
    }
}

impl Export<'_> {
    pub async fn run(&self) -> Result<Exported, ExportError> {
        check(self.output, self.force)?;
        let time = self.manifest.built.as_second();
        let tools = Tools::find(&PROGRAMS, time, self.stop)?;
        let ids = Ids::of(&self.image.id);
        let work = Scratch::new(self.scratch)?;

        self.say("stacking layers");
        let root = work.path().join("root");
        let content = self.tree(&root, &ids, time).await?;
        let room = |size: u64| size + size / 8 + JOURNAL + FREE;
        let smallest =
            (room(content.bytes).max(content.entries * 16 * 1024)).next_multiple_of(MIB) + AROUND_ROOT;
        let size = match self.size {
            Some(size) if size < smallest => return Err(ExportError::TooSmall(smallest)),
            Some(size) => size.next_multiple_of(MIB),
            None => smallest,
        };
        self.check_room(content.bytes)?;

        let raw = self.temporary("raw")?;
        let disk = File::options().read(true).write(true).open(&raw).map_err(did("open the new disk"))?;
        disk.set_len(size).map_err(did("make the new disk"))?;
        self.say("making the root file system");
        self.root_file_system(&tools, &work, &ids, &raw, size).await?;
        ext4::settle_times(&disk, ROOT_START).map_err(did("set the times of files on the disk"))?;
        self.say("making it bootable");
        let table = layout::partition_table(&ids, size);
        let quietly =
            ["--quiet", "--no-reread", "--no-tell-kernel", "--wipe=never", "--wipe-partitions=never"];
        tools.run(&[&["sfdisk"], &quietly[..], &[text(&raw)?]].concat(), &table, &[]).await?;
        self.boot_loaders(&tools, &work, &ids, &disk).await?;
        disk.sync_all().map_err(did("write the disk"))?;

        let made = match self.format.compression() {
            None => raw,
            Some(options) => {
                self.say("compressing");
                let packed = self.temporary("qcow2")?;
                let convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c"];
                let files = [text(&raw)?, text(&packed)?];
                tools.run(&[&convert[..], options, &files].concat(), "", &[]).await?;
                packed
            }
        };
        self.finish(made, size).await
    }

    /// The image as one directory, with what is this disk's own.
    async fn tree(&self, root: &Path, ids: &Ids, time: i64) -> Result<tree::Content, ExportError> {
        let (layers, target, stop) = (self.layers.to_vec(), root.to_path_buf(), self.stop.clone());
        let merged = tokio::task::spawn_blocking(move || tree::merge(&layers, &target, &stop)).await;
        let content = match merged.map_err(io::Error::other).and_then(|merged| merged) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(ExportError::Stopped),
            other => other.map_err(did("stack the image's layers"))?,
        };
        if ["boot.img", "core.img", "bootx64.efi"].iter().any(|name| !root.join(LOADER).join(name).is_file())
        {
            return Err(ExportError::NotBootable(self.image.name.clone()));
        }
        let fstab = format!("UUID={} / ext4 rw,noatime,x-systemd.growfs 0 1\n", ids.root_file_system());
        let own = || {
            tree::replace(root, "etc/fstab", &fstab, time)?;
            tree::replace(root, "etc/machine-id", "", time)?;
            tree::remove(root, "etc/ssh", "ssh_host_")
        };
        own().map_err(did("prepare the image's files"))?;
        Ok(content)
    }

    fn check_room(&self, content: u64) -> Result<(), ExportError> {
        let path = directory_of(self.output);
        let found =
            rustix::fs::statvfs(path).map_err(|e| did("look at the file system of the output")(e.into()))?;
        let free = found.f_bavail * found.f_frsize;
        // Compressed to two thirds, at least.
        let packed = if self.format.compression().is_some() { content / 3 * 2 } else { 0 };
        let needed = content + packed + JOURNAL + FREE;
        if free < needed {
            return Err(ExportError::NoRoom { path: path.to_path_buf(), free, needed });
        }
        Ok(())
    }

    async fn root_file_system(
        &self,
        tools: &Tools<'_>,
        work: &Scratch,
        ids: &Ids,
        raw: &Path,
        size: u64,
    ) -> Result<(), ExportError> {
        let settings = work.path().join("mke2fs.conf");
        std::fs::write(&settings, SETTINGS).map_err(did("write mke2fs.conf"))?;
        let tree = work.path().join("root");
        // Nothing is left for a node to initialise in the background.
        let options = format!(
            "offset={ROOT_START},hash_seed={},root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            ids.uuid("hash seed")
        );
        let journal = format!("size={}", JOURNAL / MIB);
        let blocks = format!("{}k", (size - AROUND_ROOT) / 1024);
        let id = ids.root_file_system();
        let argv = [
            "mke2fs",
            "-q",
            "-F",
            "-t",
            "ext4",
            "-L",
            "kiln-root",
            "-m",
            "1",
            "-U",
            &id,
            "-J",
            &journal,
            "-E",
            &options,
            "-d",
            text(&tree)?,
            text(raw)?,
            &blocks,
        ];
        tools.run(&argv, "", &[("MKE2FS_CONFIG", text(&settings)?)]).await
    }

    async fn boot_loaders(
        &self,
        tools: &Tools<'_>,
        work: &Scratch,
        ids: &Ids,
        disk: &File,
    ) -> Result<(), ExportError> {
        let loader = work.path().join("root").join(LOADER);
        let read = |name: &str| std::fs::read(loader.join(name)).map_err(did("read the boot loader"));
        layout::write_loader(disk, read("boot.img")?, read("core.img")?)
            .map_err(did("write the boot loader"))?;

        let efi = work.path().join("efi");
        let made = File::create(&efi).and_then(|file| file.set_len(EFI_SIZE));
        made.map_err(did("make the EFI partition"))?;
        let efi_text = text(&efi)?;
        tools
            .run(
                &["mkfs.vfat", "--invariant", "-F", "16", "-n", "KILN-EFI", "-i", &ids.serial(), efi_text],
                "",
                &[],
            )
            .await?;
        tools.run(&["mmd", "-i", efi_text, "::EFI", "::EFI/BOOT"], "", &[]).await?;
        let program = loader.join("bootx64.efi");
        tools.run(&["mcopy", "-i", efi_text, text(&program)?, "::EFI/BOOT/BOOTX64.EFI"], "", &[]).await?;
        let content = std::fs::read(&efi).map_err(did("read the EFI partition"))?;
        disk.write_all_at(&content, EFI_START).map_err(did("write the EFI partition"))
    }

    /// Both files get their names when they are whole.
    async fn finish(&self, made: TempPath, size: u64) -> Result<Exported, ExportError> {
        if self.stop.is_cancelled() {
            return Err(ExportError::Stopped);
        }
        let file = made.to_path_buf();
        let digested = tokio::task::spawn_blocking(move || digest(&file)).await;
        let (file_bytes, sha256) = digested
            .map_err(io::Error::other)
            .and_then(|digested| digested)
            .map_err(did("read the new disk"))?;
        let sidecar = Sidecar {
            format: Version,
            image: self.name.to_string(),
            disk_bytes: size,
            sha256,
            manifest: self.manifest.clone(),
        };
        let description = Sidecar::path_of(self.output);
        let beside = self.temporary("json")?;
        let json = sidecar.to_json().map_err(|e| did("describe the disk")(io::Error::other(e)))?;
        std::fs::write(&beside, json).map_err(did("describe the disk"))?;
        if self.force {
            made.persist(self.output).map_err(|e| did("name the disk")(e.error))?;
        } else if let Err(error) = made.persist_noclobber(self.output) {
            return Err(match error.error.kind() {
                io::ErrorKind::AlreadyExists => ExportError::Exists(self.output.to_path_buf()),
                _ => did("name the disk")(error.error),
            });
        }
        beside.persist(&description).map_err(|e| did("name the disk's description")(e.error))?;
        (self.progress)(Event::done(self.item(), self.output.display().to_string()));
        Ok(Exported {
            path: self.output.to_path_buf(),
            description,
            format: self.format,
            image: self.image.name.clone(),
            file_bytes,
            disk_bytes: size,
            sha256: sidecar.sha256,
        })
    }

    /// A file beside the output that is gone unless it is given its name.
    fn temporary(&self, ending: &str) -> Result<TempPath, ExportError> {
        let directory = directory_of(self.output);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let made: io::Result<NamedTempFile> = tempfile::Builder::new()
            .prefix(".kiln-export-")
            .suffix(&format!(".{ending}"))
            .permissions(mode)
            .tempfile_in(directory);
        Ok(made.map_err(did(&format!("write to {}", directory.display())))?.into_temp_path())
    }

    fn item(&self) -> String {
        format!("{} disk", self.format.name())
    }

    fn say(&self, words: &str) {
        (self.progress)(Event::working(self.item(), words));
    }
}

/// The directory that one export works in. Locked, so that the next one can tell what a killed one has left.
struct Scratch {
    directory: TempDir,
    _lock: File,
}

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch, ExportError> {
        let make = || -> io::Result<Scratch> {
            std::fs::create_dir_all(parent)?;
            std::fs::set_permissions(parent, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
            for left in std::fs::read_dir(parent)? {
                let left = left?.path();
                if lock(&left).is_ok() {
                    std::fs::remove_dir_all(left)?;
                }
            }
            let directory = TempDir::new_in(parent)?;
            let lock = lock(directory.path())?;
            Ok(Scratch { directory, _lock: lock })
        };
        make().map_err(did(&format!("work in {}", parent.display())))
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn lock(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn directory_of(output: &Path) -> &Path {
    output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn did(what: &str) -> impl Fn(io::Error) -> ExportError {
    let did = what.to_string();
    move |source| ExportError::File { did: did.clone(), source }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let bytes = io::copy(&mut file, &mut digest)?;
    Ok((bytes, hex::encode(digest.finalize())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_export_left_is_removed_and_what_is_in_use_stays() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("exports");
        let running = Scratch::new(&parent).unwrap();
        std::fs::create_dir_all(parent.join("left/root")).unwrap();
        let mine = Scratch::new(&parent).unwrap();
        assert!(running.path().exists() && mine.path().exists());
        assert!(!parent.join("left").exists());
    }

    #[test]
    fn an_output_that_exists_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("d.qcow2");
        std::fs::write(&output, "mine").unwrap();
        let error = match check(&output, false) {
            // Where programs are missing that is said first.
            Err(ExportError::Missing { .. }) => return,
            other => other.unwrap_err(),
        };
        assert!(matches!(error, ExportError::Exists(_)), "{error}");
        assert!(check(&output, true).is_ok());
        assert!(check(dir.path(), true).is_err());
        assert!(check(&dir.path().join("no/d.qcow2"), false).is_err());
    }
}
