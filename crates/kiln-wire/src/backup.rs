//! Backups: the manifest that makes a directory of files one, what a control node is told about making them, and its list
//! of those that it has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::format::{Format, ReadError, Version};

/// The name of the manifest in the directory of a backup. It is written last.
pub const MANIFEST: &str = "manifest.json";
/// The accounting database, as SQL.
pub const DATABASE: &str = "database.sql.gz";
/// slurmctld's state.
pub const SLURMCTLD: &str = "slurmctld.tar.gz";
/// The accounts, associations and limits, as `sacctmgr load` reads them.
pub const ACCOUNTS: &str = "accounts.cfg";
/// kilnd's store.
pub const STORE: &str = "kilnd.db";
/// The users and groups of the cluster's own directory, as LDIF.
pub const DIRECTORY: &str = "directory.ldif.gz";

/// What a backup holds. No secret is in a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    #[serde(default)]
    pub format: Version<1>,
    pub name: String,
    pub time: Timestamp,
    /// Why it was made, for people.
    pub reason: String,
    /// Made by the timer.
    #[serde(default)]
    pub scheduled: bool,
    /// It is what a restore has replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    pub cluster: String,
    /// Which cluster of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Names the state that it was made of. A state that started empty has another name.
    pub state_id: String,
    /// The release of Slurm that wrote what is in it: `22.05.8`.
    pub slurm: String,
    /// The host of the slurmdbd that has the accounts; `None`: they are in the cluster's own database, and in the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<String>,
    /// Fingerprints of the cluster's secrets, by name.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// Every file of it but the manifest, by name.
    pub files: BTreeMap<String, BackupFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    pub bytes: u64,
    pub sha256: String,
}

/// What `[backup]` of the file means on the control node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSettings {
    #[serde(default)]
    pub format: Version<1>,
    pub directory: PathBuf,
    /// Where a volume must be mounted for the directory to be the right one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<PathBuf>,
    /// How many of those made by the timer are kept, and how many of the others.
    pub keep: usize,
    /// Seconds between two of those made by the timer.
    pub interval: u64,
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// The host of the slurmdbd that has the accounts; `None`: they are in a database here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<String>,
    /// The base of the cluster's own directory; `None`: there is none here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_base: Option<String>,
}

/// What `kiln node backup now` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupMade {
    #[serde(default)]
    pub format: Version<1>,
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    /// Older ones that went, because there were more than are kept.
    #[serde(default)]
    pub deleted: Vec<String>,
}

/// What `kiln node backup load` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupLoaded {
    #[serde(default)]
    pub format: Version<1>,
    pub restored: String,
    /// The backup of what was there before, if one could be made.
    pub before: Option<String>,
}

/// Newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupList {
    #[serde(default)]
    pub format: Version<1>,
    pub directory: PathBuf,
    pub backups: Vec<BackupManifest>,
    /// Directories that have no manifest that can be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// The newest backup, where the cluster's present state did not grow out of it but started empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_behind: Option<String>,
}

impl Format for BackupManifest {
    const NAME: &'static str = "manifest of a backup";
    const VERSION: u32 = 1;
}

impl Format for BackupSettings {
    const NAME: &'static str = "description of backups";
    const VERSION: u32 = 1;
}

impl Format for BackupMade {
    const NAME: &'static str = "report on a backup";
    const VERSION: u32 = 1;
}

impl Format for BackupLoaded {
    const NAME: &'static str = "report on a restore";
    const VERSION: u32 = 1;
}

impl Format for BackupList {
    const NAME: &'static str = "list of backups";
    const VERSION: u32 = 1;
}

#[derive(Debug, thiserror::Error)]
pub enum BackupDamage {
    #[error("{path} cannot be read")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Manifest(#[from] ReadError),
    #[error("{file} is not as it was written: {why}")]
    File { file: String, why: String },
}

impl BackupManifest {
    /// The manifest of the backup in a directory. Its files are not looked at.
    pub fn of(directory: &Path) -> Result<BackupManifest, BackupDamage> {
        let path = directory.join(MANIFEST);
        let json = std::fs::read(&path).map_err(|source| BackupDamage::Unreadable { path, source })?;
        Ok(BackupManifest::from_json(&json)?)
    }

    /// As [`BackupManifest::of`], and every file is as it was written.
    pub fn verified(directory: &Path) -> Result<BackupManifest, BackupDamage> {
        let manifest = BackupManifest::of(directory)?;
        for (name, written) in &manifest.files {
            let damaged = |why: String| BackupDamage::File { file: name.clone(), why };
            if !is_plain(name) {
                return Err(damaged("a backup has no file of this name".into()));
            }
            let path = directory.join(name);
            let found = BackupFile::of(&path).map_err(|source| BackupDamage::Unreadable { path, source })?;
            if found.bytes != written.bytes {
                return Err(damaged(format!("it has {} bytes, not {}", found.bytes, written.bytes)));
            }
            if found.sha256 != written.sha256 {
                return Err(damaged("its checksum is another".into()));
            }
        }
        Ok(manifest)
    }

    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }
}

impl BackupFile {
    pub fn of(path: &Path) -> io::Result<BackupFile> {
        let mut file = File::open(path)?;
        let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 64 * 1024]);
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                return Ok(BackupFile { bytes, sha256: hex::encode(digest.finalize()) });
            }
            digest.update(&buffer[..count]);
            bytes += count as u64;
        }
    }
}

/// Whether this may be the name of a backup, or of a file in one: it leads nowhere else.
pub fn is_plain(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !name.is_empty() && !name.starts_with(['.', '-']) && name.bytes().all(allowed)
}

/// Tells whether a secret is the same as another without telling the secret: secrets are long and random.
pub fn fingerprint(secret: &str) -> String {
    hex::encode(&Sha256::digest(secret.trim())[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(directory: &Path) -> BackupManifest {
        let file = |name: &str| (name.to_string(), BackupFile::of(&directory.join(name)).unwrap());
        BackupManifest {
            format: Version,
            name: "2026-01-31T09-00-00Z".into(),
            time: Timestamp::UNIX_EPOCH,
            reason: "before an upgrade".into(),
            scheduled: false,
            replaced: true,
            cluster: "demo".into(),
            cluster_id: Some("1a2b".into()),
            state_id: "3c4d".into(),
            slurm: "22.05.8".into(),
            accounting: Some("dbd".into()),
            secrets: [("munge-key".to_string(), fingerprint("x"))].into(),
            files: [file(DATABASE), file(STORE)].into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(DATABASE), "insert").unwrap();
        std::fs::write(dir.path().join(STORE), "").unwrap();
        let manifest = manifest(dir.path());
        assert_eq!(BackupManifest::from_json(&manifest.to_json().unwrap()), Ok(manifest.clone()));
        let settings = BackupSettings {
            format: Version,
            directory: "/srv/kiln/backup".into(),
            mount: Some("/srv/kiln/backup".into()),
            keep: 14,
            interval: 86400,
            secrets: BTreeMap::new(),
            accounting: Some("dbd".into()),
            directory_base: Some("dc=demo".into()),
        };
        assert_eq!(BackupSettings::from_json(&settings.to_json().unwrap()), Ok(settings));
        let made = BackupMade {
            format: Version,
            name: "b".into(),
            path: "/srv/kiln/backup/b".into(),
            bytes: 7,
            deleted: vec!["a".into()],
        };
        assert_eq!(BackupMade::from_json(&made.to_json().unwrap()), Ok(made));
        let loaded = BackupLoaded { format: Version, restored: "b".into(), before: Some("c".into()) };
        assert_eq!(BackupLoaded::from_json(&loaded.to_json().unwrap()), Ok(loaded));
        let list = BackupList {
            format: Version,
            directory: "/srv/kiln/backup".into(),
            backups: vec![manifest],
            unreadable: vec!["odd".into()],
            left_behind: None,
        };
        assert_eq!(BackupList::from_json(&list.to_json().unwrap()), Ok(list));
    }

    #[test]
    fn damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join(DATABASE);
        std::fs::write(&database, "insert").unwrap();
        std::fs::write(dir.path().join(STORE), "").unwrap();
        let manifest = manifest(dir.path());
        std::fs::write(dir.path().join(MANIFEST), manifest.to_json().unwrap()).unwrap();
        let verify = || BackupManifest::verified(dir.path()).map_err(|damage| damage.to_string());
        assert_eq!(verify(), Ok(manifest.clone()));
        for (content, why) in [("Insert", "its checksum is another"), ("inser", "it has 5 bytes, not 6")] {
            std::fs::write(&database, content).unwrap();
            assert_eq!(verify(), Err(format!("{DATABASE} is not as it was written: {why}")));
        }
        std::fs::remove_file(&database).unwrap();
        assert!(verify().unwrap_err().contains(DATABASE));

        let mut away = manifest;
        let file = away.files.remove(DATABASE).unwrap();
        away.files.insert("../x".into(), file);
        std::fs::write(dir.path().join(MANIFEST), away.to_json().unwrap()).unwrap();
        assert!(
            verify()
                .unwrap_err()
                .starts_with("../x is not as it was written: a backup has no file of this name")
        );
    }

    #[test]
    fn names_lead_nowhere_else() {
        assert!(is_plain("2026-01-31T09-00-00Z") && is_plain(DATABASE));
        for bad in ["", ".", "..", ".hidden", "a/b", "-x", "a b"] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }
}
