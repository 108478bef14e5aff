//! Volumes and backups.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Volumes {
    /// Slurm's state and the accounting database.
    pub state: Volume,
    /// The users' home directories.
    pub home: Volume,
    /// Users have quotas on the volume of the home directories.
    pub home_quota: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Volume {
    /// Kiln creates it and `destroy` deletes it.
    Manage { size_gib: u64 },
    /// It exists under this name; Kiln attaches it and never deletes it.
    Attach { name: String },
    /// File systems that the cloud itself serves over NFS: the home directories, and the share with them. Kiln creates them and
    /// `destroy` deletes them.
    #[serde(rename = "file_storage")]
    FileStorage,
    /// On the root disk of each node, and lost when the node is rebuilt.
    None,
}

/// Backups of accounting and Slurm's state, which the control node makes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Backup {
    /// When, in systemd's words.
    pub calendar: String,
    /// Between two of them.
    pub interval: Duration,
    pub keep: usize,
    /// Where they are kept, unless there is a `path`.
    pub volume: Volume,
    /// A directory of the site.
    pub path: Option<String>,
}
