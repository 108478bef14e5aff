//! What an instance is told at its creation, as user data: who it is, and the keys that are its alone.

use serde::{Deserialize, Serialize};

/// User data of every instance Kiln makes, as JSON under the key `kiln`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub cluster: String,
    pub node: String,
    pub role: String,
    pub domain: String,
    /// This instance is building an image: node start-up is skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub build: bool,
    /// The age identity that opens this node's bundle. Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_key: Option<String>,
    /// The SSH host key (OpenSSH format), so that the first connection is already a known one. Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_host_key: Option<String>,
    /// Where a compute node finds the share; `None` on nodes that are only configured over SSH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<crate::bundle::MountSource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserData {
    pub kiln: Identity,
}
