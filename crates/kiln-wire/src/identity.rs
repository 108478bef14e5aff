//! What an instance is told at its creation, as user data: who it is, and the keys that are its alone.

use serde::{Deserialize, Serialize};
use serde_json::json;

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

impl UserData {
    /// As an instance gets it: JSON. Where an image has cloud-init, which by itself would keep root from logging in
    /// and make host keys of its own, the same JSON (which is YAML, too) is addressed to both of them.
    pub fn to_text(&self, cloud_init: bool) -> serde_json::Result<String> {
        if !cloud_init {
            return serde_json::to_string(self);
        }
        let mut data = serde_json::to_value(self)?;
        data["disable_root"] = json!(false);
        // No user of its own that the key also opens, with sudo.
        data["users"] = json!([]);
        data["preserve_hostname"] = json!(true);
        data["manage_etc_hosts"] = json!(false);
        if let Some(key) = &self.kiln.ssh_host_key {
            data["ssh_deletekeys"] = json!(true);
            data["ssh_genkeytypes"] = json!([]);
            data["ssh_keys"] = json!({ "ed25519_private": key });
        }
        Ok(format!("{CLOUD_CONFIG}\n{data}"))
    }

    /// `None`: the user data is somebody else's.
    pub fn from_text(text: &[u8]) -> Option<UserData> {
        let text = std::str::from_utf8(text).ok()?;
        serde_json::from_str(text.strip_prefix(CLOUD_CONFIG).unwrap_or(text)).ok()
    }
}

const CLOUD_CONFIG: &str = "#cloud-config";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_init_and_kiln_read_the_same_text() {
        let identity =
            r#"{"kiln":{"cluster":"c","node":"n","role":"compute","domain":"d","ssh_host_key":"secret\n"}}"#;
        let data = UserData::from_text(identity.as_bytes()).unwrap();
        let text = data.to_text(true).unwrap();
        assert!(text.starts_with("#cloud-config\n{"), "{text}");
        assert!(text.contains(r#""disable_root":false"#) && text.contains("ed25519_private"), "{text}");
        assert!(text.contains(r#""users":[]"#), "{text}");
        assert_eq!(UserData::from_text(text.as_bytes()), Some(data));
        assert_eq!(UserData::from_text(b"#cloud-config\npackages: [vim]"), None);
    }
}
