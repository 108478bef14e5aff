//! The lock file: exactly which packages an image is to have. It is kept beside the cluster file, reviewed by people and
//! committed, so every package is one line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kiln_wire::{Format, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::manifest::{Manifest, Package};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockFile {
    #[serde(default)]
    pub format: Version<1>,
    /// By their names in the cluster file.
    pub images: BTreeMap<String, Lock>,
}

impl Format for LockFile {
    const NAME: &'static str = "lock file";
    const VERSION: u32 = 1;
}

/// What one image is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The image that it was written from, and when that was built.
    pub image: String,
    pub built: jiff::Timestamp,
    pub family: String,
    /// The image that the build started from, and the digest of the packages it came with.
    pub source: String,
    pub source_digest: String,
    pub packages: Vec<LockedPackage>,
}

/// Written as `NAME VERSION ARCHITECTURE SHA256`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LockedPackage {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// `None` for a package that no package source has: a command of the recipe installs it.
    pub sha256: Option<String>,
}

impl From<LockedPackage> for String {
    fn from(package: LockedPackage) -> String {
        let sum = package.sha256.as_deref().unwrap_or("-");
        format!("{} {} {} {sum}", package.name, package.version, package.architecture)
    }
}

impl TryFrom<String> for LockedPackage {
    type Error = String;

    fn try_from(line: String) -> Result<Self, String> {
        let fields: Vec<&str> = line.split(' ').collect();
        // They become part of a file that the package manager reads.
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_sum =
            |text: &str| text == "-" || text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match fields.as_slice() {
            [name, version, architecture, sum]
                if [name, version, architecture].iter().all(|text| is_plain(text)) && is_sum(sum) =>
            {
                Ok(LockedPackage {
                    name: (*name).to_string(),
                    version: (*version).to_string(),
                    architecture: (*architecture).to_string(),
                    sha256: (*sum != "-").then(|| (*sum).to_string()),
                })
            }
            _ => Err("a package is `NAME VERSION ARCHITECTURE SHA256`".to_string()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} cannot be {did}", path.display())]
    File {
        path: PathBuf,
        did: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("{}", path.display())]
    Content {
        path: PathBuf,
        #[source]
        source: kiln_wire::ReadError,
    },
    #[error("image {0} was built by an older Kiln, which did not note the hashes of packages")]
    NoHashes(String),
    #[error("{} has no lock of image {image}", path.display())]
    NotLocked { path: PathBuf, image: String },
}

impl LockError {
    pub fn hint(&self) -> Option<String> {
        match self {
            LockError::NoHashes(_) => {
                Some("build it again with `kiln image build --force`, then lock it".into())
            }
            LockError::NotLocked { image, .. } => Some(format!("`kiln image lock {image}` writes one")),
            LockError::Content { .. } => {
                Some("`kiln image lock` writes it again from the images of the file".into())
            }
            LockError::File { .. } => None,
        }
    }
}

impl LockFile {
    /// Beside the cluster file: `cluster.toml` has `cluster.lock`.
    pub fn path(cluster_file: &Path) -> PathBuf {
        cluster_file.with_extension("lock")
    }

    /// `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<LockFile>, LockError> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => {
                other.map_err(|source| LockError::File { path: path.to_path_buf(), did: "read", source })?
            }
        };
        let content = |source| LockError::Content { path: path.to_path_buf(), source };
        LockFile::from_json(&text).map(Some).map_err(content)
    }

    /// Whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let failed = |source| LockError::File { path: path.to_path_buf(), did: "written", source };
        let mut text = serde_json::to_string_pretty(self).map_err(|e| failed(e.into()))?;
        text.push('\n');
        let temporary = path.with_extension(format!("lock.{}", std::process::id()));
        let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
        written.map_err(|source| {
            let _ = std::fs::remove_file(&temporary);
            failed(source)
        })
    }
}

impl Lock {
    pub fn of(image: &str, manifest: &Manifest) -> Result<Lock, LockError> {
        let old = || LockError::NoHashes(image.to_string());
        let mut packages: Vec<LockedPackage> = manifest.packages.iter().map(locked).collect();
        packages.sort();
        if packages.iter().any(|package| package.architecture.is_empty()) {
            return Err(old());
        }
        Ok(Lock {
            image: image.to_string(),
            built: manifest.built,
            family: manifest.family.clone(),
            source: manifest.source.clone(),
            source_digest: manifest.source_digest.clone().ok_or_else(old)?,
            packages,
        })
    }

    /// What a recipe's digest has of it: what is inside the image, and not where it was taken from.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.lines()))
    }

    /// For the scripts of a family: name, version, architecture and hash, separated by tabs.
    pub fn lines(&self) -> String {
        let line =
            |package: &LockedPackage| format!("{}\n", String::from(package.clone()).replace(' ', "\t"));
        self.packages.iter().map(line).collect()
    }

    /// What an image that was built from this lock has otherwise; empty if nothing.
    pub fn broken_by(&self, packages: &[Package]) -> Vec<String> {
        let key = |package: &LockedPackage| {
            (package.name.clone(), package.architecture.clone(), package.version.clone())
        };
        let built: Vec<LockedPackage> = packages.iter().map(locked).collect();
        let wanted: BTreeMap<_, &LockedPackage> = self.packages.iter().map(|p| (key(p), p)).collect();
        let there: BTreeMap<_, &LockedPackage> = built.iter().map(|p| (key(p), p)).collect();
        let name = |(name, architecture, version): &(String, String, String)| {
            format!("{name}:{architecture} {version}")
        };
        let names: BTreeSet<_> = wanted.keys().map(|(name, architecture, _)| (name, architecture)).collect();
        let mut all: Vec<String> = Vec::new();
        all.extend(
            wanted.keys().filter(|k| !there.contains_key(*k)).map(|k| format!("{} is not there", name(k))),
        );
        for (k, package) in &there {
            match wanted.get(k) {
                None if names.contains(&(&k.0, &k.1)) => {
                    all.push(format!("{} is of another version", name(k)));
                }
                None => all.push(format!("{} is not in the lock", name(k))),
                Some(locked) => {
                    if let (Some(a), Some(b)) = (&locked.sha256, &package.sha256)
                        && a != b
                    {
                        all.push(format!("{} has another hash", name(k)));
                    }
                }
            }
        }
        all
    }
}

fn locked(package: &Package) -> LockedPackage {
    LockedPackage {
        name: package.name.clone(),
        version: package.version.clone(),
        architecture: package.architecture.clone(),
        sha256: package.sha256.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::test_manifest;

    fn manifest() -> Manifest {
        let mut manifest = test_manifest("munge 0.5.15-2 amd64\nadduser 3.134 all\nown 1 all\n");
        manifest.source_digest = Some("d".into());
        manifest.packages[0].sha256 = Some("ab".repeat(32));
        manifest.packages[1].sha256 = Some("cd".repeat(32));
        manifest
    }

    #[test]
    fn a_lock_file_comes_back_as_it_was_with_a_line_for_every_package() {
        let dir = tempfile::tempdir().unwrap();
        let path = LockFile::path(&dir.path().join("cluster.toml"));
        assert_eq!(path.file_name().unwrap(), "cluster.lock");
        assert_eq!(LockFile::read(&path).unwrap(), None);
        let lock = Lock::of("default-1", &manifest()).unwrap();
        let file = LockFile { format: Version, images: [("default".to_string(), lock)].into() };
        file.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("\"adduser 3.134 all {}\",\n", "cd".repeat(32))), "{text}");
        assert!(text.starts_with("{\n  \"format\": 1,\n"), "{text}");
        assert_eq!(LockFile::read(&path).unwrap(), Some(file));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_lines_and_newer_files_are_refused() {
        let file = |package: &str| {
            format!(
                r#"{{"images":{{"a":{{"image":"","built":"2026-01-01T00:00:00Z","family":"debian","source":"s",
                "source_digest":"d","packages":["{package}"]}}}}}}"#
            )
        };
        assert!(LockFile::from_json(file("a 1 all -").as_bytes()).is_ok());
        for wrong in ["", "a", "a 1 all", "a 1 all zz", "a 1  -", "a 1 all - x", "a\\n 1 all -"] {
            assert!(LockFile::from_json(file(wrong).as_bytes()).is_err(), "{wrong:?}");
        }
        let newer = LockFile::from_json(br#"{"format":2}"#).unwrap_err().to_string();
        assert!(newer.contains("newer kiln"), "{newer}");
    }

    #[test]
    fn an_image_of_an_older_kiln_cannot_be_locked() {
        let mut old = manifest();
        old.source_digest = None;
        assert!(matches!(Lock::of("i", &old), Err(LockError::NoHashes(_))));
        let mut old = manifest();
        old.packages[0].architecture.clear();
        assert!(matches!(Lock::of("i", &old), Err(LockError::NoHashes(_))));
    }

    #[test]
    fn what_differs_from_a_lock_is_named() {
        let lock = Lock::of("i", &manifest()).unwrap();
        assert_eq!(lock.broken_by(&manifest().packages), Vec::<String>::new());
        let mut built = manifest().packages;
        built[0].version = "0.5.16".into();
        built[1].sha256 = Some("ef".repeat(32));
        built[2].name = "left".into();
        let mut broken = lock.broken_by(&built);
        broken.sort();
        assert_eq!(
            broken,
            [
                "adduser:all 3.134 has another hash",
                "left:all 1 is not in the lock",
                "munge:amd64 0.5.15-2 is not there",
                "munge:amd64 0.5.16 is of another version",
                "own:all 1 is not there"
            ]
        );
    }

    #[test]
    fn a_digest_is_of_the_packages_alone() {
        let lock = Lock::of("i", &manifest()).unwrap();
        assert_eq!(Lock::of("another", &manifest()).unwrap().digest(), lock.digest());
        let mut other = manifest();
        other.packages[0].sha256 = None;
        assert_ne!(Lock::of("i", &other).unwrap().digest(), lock.digest());
    }
}
