//! The file beside an exported disk: which image it is of and what is in it. `kiln image upload` reads it, so that the
//! image in the cloud says the same of itself as one that was built there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use kiln_wire::labels::image as property;
use kiln_wire::{Format, ReadError, Version};
use serde::{Deserialize, Serialize};

use crate::manifest::Manifest;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sidecar {
    #[serde(default)]
    pub format: Version<1>,
    /// The image's name in the file that it was built from.
    pub image: String,
    /// What the disk is large.
    pub disk_bytes: u64,
    pub sha256: String,
    pub manifest: Manifest,
}

impl Format for Sidecar {
    const NAME: &'static str = "description of a disk";
    const VERSION: u32 = 1;
}

#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    #[error("{} could not be read", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} does not describe a disk", path.display())]
    Content {
        path: PathBuf,
        #[source]
        source: ReadError,
    },
}

impl Sidecar {
    /// `disk.qcow2.kiln.json` is that of `disk.qcow2`.
    pub fn path_of(disk: &Path) -> PathBuf {
        let mut name = disk.as_os_str().to_owned();
        name.push(".kiln.json");
        name.into()
    }

    /// `None` where the disk has none.
    pub fn of(disk: &Path) -> Result<Option<Sidecar>, SidecarError> {
        let path = Sidecar::path_of(disk);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(SidecarError::File { path, source }),
        };
        match Sidecar::from_json(&text) {
            Ok(sidecar) => Ok(Some(sidecar)),
            Err(source) => Err(SidecarError::Content { path, source }),
        }
    }

    /// Which the image has in a cloud.
    pub fn properties(&self) -> serde_json::Result<BTreeMap<String, String>> {
        Ok(BTreeMap::from([
            (property::RECIPE.to_string(), self.manifest.recipe.clone()),
            (property::NAME.to_string(), self.image.clone()),
            (property::MANIFEST.to_string(), serde_json::to_string(&self.manifest)?),
        ]))
    }

    /// In whole GiB, as clouds count.
    pub fn min_disk_gib(&self) -> u64 {
        self.disk_bytes.div_ceil(1 << 30)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar() -> Sidecar {
        Sidecar {
            format: Version,
            image: "default".into(),
            disk_bytes: (1 << 30) + 1,
            sha256: "ab".into(),
            manifest: Manifest {
                format: Version,
                recipe: "r".into(),
                source: "s".into(),
                source_digest: None,
                software: Vec::new(),
                descent: Vec::new(),
                family: "debian".into(),
                built: jiff::Timestamp::UNIX_EPOCH,
                kiln: "0".into(),
                packages: vec![],
            },
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("d.qcow2");
        assert_eq!(Sidecar::of(&disk).unwrap(), None);
        std::fs::write(dir.path().join("d.qcow2.kiln.json"), sidecar().to_json().unwrap()).unwrap();
        let read = Sidecar::of(&disk).unwrap().unwrap();
        assert_eq!(read, sidecar());
        assert_eq!(read.min_disk_gib(), 2);
        let properties = read.properties().unwrap();
        assert_eq!(properties["kiln_recipe"], "r");
        assert_eq!(properties["kiln_image"], "default");
        assert_eq!(serde_json::from_str::<Manifest>(&properties["kiln_manifest"]).unwrap(), read.manifest);
    }

    #[test]
    fn another_file_of_its_name_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("d.raw");
        std::fs::write(dir.path().join("d.raw.kiln.json"), "half a f").unwrap();
        let error = Sidecar::of(&disk).unwrap_err();
        assert!(error.to_string().ends_with("d.raw.kiln.json does not describe a disk"), "{error}");
    }
}
