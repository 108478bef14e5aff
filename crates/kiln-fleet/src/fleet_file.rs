//! What kilnd is told of the fleet: written by `kiln configure`, read again whenever it changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kiln_cloud::{Access, Cloud};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, io};

/// No `Debug`, here and below, on purpose: secrets must not find their way into a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetFile {
    pub cluster: String,
    pub cloud: Access,
    /// At most this many nodes are rebuilt or rebooted at a time.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// Where rebuild jobs go. Which nodes each has is Slurm's to say.
    #[serde(default = "default_partitions")]
    pub rebuild_partitions: Vec<String>,
    /// A license every rebuild job asks for, where Slurm is to cap their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    pub nodes: BTreeMap<String, FleetNode>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetNode {
    pub group: String,
    /// Id of the image it should have; without one it keeps what it has.
    #[serde(default)]
    pub image: Option<String>,
    /// Secret.
    pub user_data: String,
    /// OpenSSH public key for root.
    pub ssh_key: String,
}

fn default_concurrency() -> usize {
    10
}

fn default_partitions() -> Vec<String> {
    vec!["rebuild".to_string()]
}

impl FleetFile {
    pub fn read(path: &Path) -> Result<Self> {
        parse(path)
    }

    pub fn cloud(&self) -> Result<Cloud> {
        Ok(Cloud::at(&self.cloud)?)
    }
}

/// Only the names: a hook has no time for the rest.
pub fn node_names(path: &Path) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    #[expect(
        clippy::zero_sized_map_values,
        reason = "a map is what the file has; its values are passed over"
    )]
    struct Names {
        nodes: BTreeMap<String, IgnoredAny>,
    }
    Ok(parse::<Names>(path)?.nodes.into_keys().collect())
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).map_err(io(path))?;
    // The place is named but never quoted: the file holds secrets.
    serde_json::from_slice(&text).map_err(|error| Error::FleetFile {
        path: path.into(),
        problem: match error.classify() {
            serde_json::error::Category::Data => {
                format!(
                    "line {}, column {}: a value is missing or of the wrong kind",
                    error.line(),
                    error.column()
                )
            }
            _ => format!("line {}, column {}: not JSON", error.line(), error.column()),
        },
    })
}

/// The file as last read, and a connection to its cloud.
pub struct Fleet {
    pub file: FleetFile,
    pub cloud: Cloud,
}

/// Notices when the file was replaced.
pub struct FleetWatch {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl FleetWatch {
    pub fn new(path: PathBuf) -> Self {
        FleetWatch { path, seen: None }
    }

    /// `None`: nothing new since the last call.
    pub fn changed(&mut self) -> Option<Result<Fleet>> {
        let stamp = std::fs::metadata(&self.path).and_then(|m| Ok((m.modified()?, m.len()))).ok();
        if stamp.is_some() && stamp == self.seen {
            return None;
        }
        // A missing file is told once, not five times a second.
        if stamp.is_none() && self.seen == Some(MISSING) {
            return None;
        }
        self.seen = stamp.or(Some(MISSING));
        Some(FleetFile::read(&self.path).and_then(|file| Ok(Fleet { cloud: file.cloud()?, file })))
    }
}

const MISSING: (SystemTime, u64) = (SystemTime::UNIX_EPOCH, u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"cluster":"c","cloud":{"kind":"local","url":"http://10.0.0.1:1","token":"t0ken"},
        "nodes":{"n-0":{"group":"standard","image":"i2","user_data":"s3cret","ssh_key":"ssh-ed25519 A"}}}"#;

    #[test]
    fn what_is_left_out_has_a_default() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        std::fs::write(&path, TEXT).unwrap();
        let file = FleetFile::read(&path).unwrap();
        assert_eq!(file.concurrency, 10);
        assert_eq!(file.rebuild_partitions, ["rebuild"]);
        assert_eq!(file.nodes["n-0"].image.as_deref(), Some("i2"));
        assert_eq!(node_names(&path).unwrap(), ["n-0"]);
    }

    #[test]
    fn an_error_quotes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        std::fs::write(&path, TEXT.replace("\"i2\"", "[\"s3cret\"]")).unwrap();
        let error = FleetFile::read(&path).err().unwrap().chain();
        assert!(error.contains("line 2") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn a_change_is_noticed_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        let mut watch = FleetWatch::new(path.clone());
        assert!(watch.changed().unwrap().is_err());
        assert!(watch.changed().is_none());
        std::fs::write(&path, TEXT).unwrap();
        assert!(watch.changed().unwrap().is_ok());
        assert!(watch.changed().is_none());
    }
}
