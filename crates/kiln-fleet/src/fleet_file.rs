//! What kilnd is told of the fleet: written by `kiln configure`, read again whenever it changes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use kiln_cloud::{Access, Attachment, Cloud};
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
    /// Seconds until Slurm gives up a node that is being rebuilt.
    #[serde(default = "default_resume_timeout")]
    pub resume_timeout: u64,
    /// A license every rebuild job asks for, where Slurm is to cap their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// What every instance that kilnd makes is connected to; without it kilnd makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
    /// By name. A group that is not here has fixed nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub elastic: BTreeMap<String, ElasticGroup>,
    #[serde(default)]
    pub patience: Patience,
    pub nodes: BTreeMap<String, FleetNode>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Network id.
    pub network: String,
    /// Security group ids.
    pub security_groups: Vec<String>,
    pub volumes: Vec<Attachment>,
}

/// A group whose nodes Slurm powers up and down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElasticGroup {
    /// Tried in this order when the cloud has no room.
    pub places: Vec<Place>,
    /// Nodes that stay up whether they are needed or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub always_up: Vec<String>,
}

/// Where and as what an instance may be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub flavor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// How long kilnd lets things be before it acts, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Patience {
    /// Between two looks of the reconciler.
    pub reconcile: u64,
    /// An odd state must have lasted this long.
    pub grace: u64,
    /// Instances that are younger than this file, and no node's, may be of nodes that `kiln configure` has yet to tell of.
    pub newcomer: u64,
    /// A group that the cloud has no room for, or that fails again and again, is left alone for this long.
    pub pause: u64,
    /// Failures of a group in a row that make it pause.
    pub failures: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { reconcile: 30, grace: 120, newcomer: 3600, pause: 600, failures: 5 }
    }
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
    /// The address kept for a node of an elastic group, so that its name means the same on all nodes at all times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

fn default_concurrency() -> usize {
    10
}

fn default_resume_timeout() -> u64 {
    300
}

fn default_partitions() -> Vec<String> {
    vec!["rebuild".to_string()]
}

impl FleetFile {
    pub fn read(path: &Path) -> Result<Self> {
        parse(path)
    }

    /// The elastic group a node is of, if it is.
    pub fn elastic_group(&self, node: &str) -> Option<&ElasticGroup> {
        self.elastic.get(&self.nodes.get(node)?.group)
    }

    pub fn cloud(&self) -> Result<Cloud> {
        Ok(Cloud::at(&self.cloud)?)
    }
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
    /// When `kiln configure` last wrote the file.
    pub written: Option<Timestamp>,
}

impl Fleet {
    pub fn read(path: &Path) -> Result<Self> {
        let file = FleetFile::read(path)?;
        let written = std::fs::metadata(path).and_then(|m| m.modified()).ok();
        Ok(Fleet { cloud: file.cloud()?, file, written: written.and_then(|w| w.try_into().ok()) })
    }
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
        Some(Fleet::read(&self.path))
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
