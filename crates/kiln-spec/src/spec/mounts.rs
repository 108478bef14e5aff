//! File systems of the site that nodes mount.

use serde::Serialize;

use crate::Role;

/// A file system that is not Kiln's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteMount {
    /// As the mount table has it: `server:/export`, `tmpfs`, a device.
    pub source: String,
    pub path: String,
    /// Type of the file system, as `mount` knows it.
    #[serde(rename = "type")]
    pub kind: String,
    pub options: Vec<String>,
    /// Of the nodes that mount it.
    pub roles: Vec<Role>,
    /// Mounted when it is first used.
    pub automount: bool,
    /// Jobs need it: slurmd does not start without it.
    pub required: bool,
}

impl SiteMount {
    pub fn is_read_only(&self) -> bool {
        self.options.iter().any(|option| option == "ro")
    }

    pub fn is_nfs(&self) -> bool {
        matches!(self.kind.as_str(), "nfs" | "nfs4")
    }
}
