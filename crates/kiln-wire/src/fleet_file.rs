//! What kilnd is told of the fleet: written by `kiln configure`, read again whenever it changes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cloud_access::CloudAccess;
use crate::dashboard_settings::DashboardSettings;
use crate::format::{Format, ReadError, Version};
use crate::notify::NotifySettings;
use crate::secret_text::SecretText;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetFile {
    #[serde(default)]
    pub format: Version<1>,
    pub cluster: String,
    /// Which cluster of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    pub cloud: CloudAccess,
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
    #[serde(rename = "surroundings", default, skip_serializing_if = "Option::is_none")]
    pub instance_defaults: Option<InstanceDefaults>,
    /// By name. A group that is not here has fixed nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub elastic: BTreeMap<String, ElasticGroup>,
    #[serde(rename = "patience", default)]
    pub timing: Timing,
    /// Without it nobody is told of anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifySettings>,
    /// Without it the dashboard is on the loopback address alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<DashboardSettings>,
    pub nodes: BTreeMap<String, FleetNode>,
    /// Nodes that report on their services every minute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub watched: BTreeMap<String, WatchedNode>,
    /// `None`: nothing is monitored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<FleetMonitoring>,
}

/// A control or login node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedNode {
    /// Where its report can be had; `None`: it is this very node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// What monitoring asks of kilnd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetMonitoring {
    /// Whoever has it may read, as Prometheus does.
    pub token: SecretText,
    /// Of an hour of an instance, by flavor, in millionths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, u64>,
    /// Files on control with a certificate whose end is to be known, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub certificates: BTreeMap<String, PathBuf>,
}

/// What all instances that kilnd makes have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceDefaults {
    /// Network id.
    pub network: String,
    /// Security group ids.
    pub security_groups: Vec<String>,
    pub volumes: Vec<Attachment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Volume id.
    pub volume: String,
    #[serde(default)]
    pub read_only: bool,
}

/// A group whose nodes Slurm powers up and down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElasticGroup {
    /// Tried in this order when the cloud has no room.
    #[serde(rename = "places")]
    pub launch_options: Vec<LaunchOption>,
    /// Nodes that stay up whether they are needed or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub always_up: Vec<String>,
}

/// A flavor, and a zone, that an instance may be made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOption {
    pub flavor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// How long kilnd lets things be before it acts, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    /// Between two looks of the reconciler.
    pub reconcile: u64,
    /// An odd state must have lasted this long.
    pub grace: u64,
    /// An instance that is younger than this file and belongs to no node may belong to one that `kiln configure` has yet to
    /// write into it, for this long.
    pub newcomer: u64,
    /// A group that the cloud has no room for, or that fails again and again, is left alone for this long.
    pub pause: u64,
    /// Failures of a group in a row that make it pause.
    pub failures: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { reconcile: 30, grace: 120, newcomer: 3600, pause: 600, failures: 5 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetNode {
    pub group: String,
    /// Id of the image it should have; without one it keeps what it has.
    #[serde(default)]
    pub image: Option<String>,
    pub user_data: SecretText,
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

impl Format for FleetFile {
    const NAME: &'static str = "fleet file";
    const VERSION: u32 = 1;
}

#[derive(Debug, thiserror::Error)]
pub enum FleetFileError {
    #[error("cannot read {}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("cannot use {}", path.display())]
    Content { path: PathBuf, source: ReadError },
}

impl FleetFile {
    pub fn read(path: &Path) -> Result<Self, FleetFileError> {
        let text = std::fs::read(path).map_err(|source| FleetFileError::Io { path: path.into(), source })?;
        Self::from_json(&text).map_err(|source| FleetFileError::Content { path: path.into(), source })
    }

    /// With line breaks: administrators look into it.
    pub fn to_text(&self) -> serde_json::Result<SecretText> {
        serde_json::to_string_pretty(self).map(SecretText::from)
    }

    /// `None`: the node's group is not elastic.
    pub fn elastic_group(&self, node: &str) -> Option<&ElasticGroup> {
        self.elastic.get(&self.nodes.get(node)?.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an older Kiln wrote it.
    const TEXT: &str = r#"{"cluster":"c","cloud":{"kind":"local","url":"http://10.0.0.1:1","token":"t0ken"},
        "nodes":{"n-0":{"group":"standard","image":"i2","user_data":"s3cret","ssh_key":"ssh-ed25519 A"}}}"#;

    #[test]
    fn what_is_left_out_has_a_default() {
        let file = FleetFile::from_json(TEXT.as_bytes()).unwrap();
        assert_eq!(file.concurrency, 10);
        assert_eq!(file.rebuild_partitions, ["rebuild"]);
        assert_eq!(file.nodes["n-0"].image.as_deref(), Some("i2"));
    }

    #[test]
    fn what_is_written_is_read() {
        let launch_options = vec![LaunchOption { flavor: "big".into(), zone: Some("a".into()) }];
        let volumes = vec![Attachment { volume: "v".into(), read_only: true }];
        let file = FleetFile {
            license: Some("rebuild".into()),
            instance_defaults: Some(InstanceDefaults {
                network: "net".into(),
                security_groups: vec!["sg".into()],
                volumes,
            }),
            elastic: [("e".into(), ElasticGroup { launch_options, always_up: vec!["e-0".into()] })].into(),
            timing: Timing { grace: 7, ..Timing::default() },
            watched: [("login-0".into(), WatchedNode { address: Some([10, 0, 0, 2].into()) })].into(),
            monitoring: Some(FleetMonitoring {
                token: "t0ken".into(),
                prices: [("big".into(), 50_000)].into(),
                certificates: [("rest".into(), "/etc/x.pem".into())].into(),
            }),
            ..FleetFile::from_json(TEXT.as_bytes()).unwrap()
        };
        assert!(FleetFile::from_json(file.to_text().unwrap().expose_secret().as_bytes()).unwrap() == file);
    }

    #[test]
    fn its_secrets_are_not_shown() {
        let mut file = FleetFile::from_json(TEXT.as_bytes()).unwrap();
        file.cloud = CloudAccess::new(&"t0ken").unwrap();
        let shown = format!("{file:?} {:?}", file.to_text());
        assert!(shown.contains("n-0") && !shown.contains("s3cret") && !shown.contains("t0ken"), "{shown}");
    }

    #[test]
    fn an_error_names_the_file_and_quotes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        std::fs::write(&path, TEXT.replace("\"i2\"", "[\"s3cret\"]")).unwrap();
        let Err(FleetFileError::Content { path, source }) = FleetFile::read(&path) else { panic!() };
        assert!(path.ends_with("fleet.json"));
        assert!(source.to_string().contains("line 2") && !source.to_string().contains("s3cret"), "{source}");
    }
}
