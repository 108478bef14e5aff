//! What an instance is told at its creation, as user data: who it is, and the keys that are its alone.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::format::{Format, ReadError, Version};
use crate::secret_text::SecretText;

/// User data of every instance Kiln makes, as JSON under the key `kiln`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    #[serde(default)]
    pub format: Version<1>,
    pub cluster: String,
    pub node: String,
    pub role: String,
    pub domain: String,
    /// This instance is building an image: node start-up is skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub build: bool,
    /// Opens this node's bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_key: Option<SecretText>,
    /// The public half of the deploy host's key: a bundle from anybody else is refused. An instance that was made before
    /// there was such a key waits for `kiln configure` to bring it; nothing is accepted unproven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_key: Option<String>,
    /// The SSH host key (OpenSSH format), so that the first connection is already a known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_host_key: Option<SecretText>,
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
    pub fn to_text(&self, cloud_init: bool) -> serde_json::Result<SecretText> {
        if !cloud_init {
            return serde_json::to_string(self).map(SecretText::from);
        }
        let mut data = serde_json::to_value(self)?;
        data["disable_root"] = json!(false);
        // No user of its own that the key also opens, with sudo.
        data["users"] = json!([]);
        data["preserve_hostname"] = json!(true);
        data["manage_etc_hosts"] = json!(false);
        // The image's, or the file's: cloud-init would set one that the image may not have.
        data["locale"] = json!(false);
        if let Some(key) = &self.kiln.ssh_host_key {
            data["ssh_deletekeys"] = json!(true);
            data["ssh_genkeytypes"] = json!([]);
            data["ssh_keys"] = json!({ "ed25519_private": key });
        }
        Ok(format!("{CLOUD_CONFIG}\n{data}").into())
    }

    /// `None`: the user data is not Kiln's.
    pub fn from_text(text: &[u8]) -> Result<Option<UserData>, ReadError> {
        let text = text.strip_prefix(CLOUD_CONFIG.as_bytes()).unwrap_or(text);
        let Ok(AnyUserData { kiln }) = serde_json::from_slice(text) else { return Ok(None) };
        match Identity::from_json(kiln.to_string().as_bytes()) {
            Ok(kiln) => Ok(Some(UserData { kiln })),
            Err(newer @ ReadError::Newer { .. }) => Err(newer),
            Err(_) => Ok(None),
        }
    }
}

/// Of any version.
#[derive(Deserialize)]
struct AnyUserData {
    kiln: serde_json::Value,
}

impl Format for Identity {
    const NAME: &'static str = "identity in the user data";
    const VERSION: u32 = 1;
}

const CLOUD_CONFIG: &str = "#cloud-config";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_init_and_kiln_read_the_same_text() {
        let identity =
            r#"{"kiln":{"cluster":"c","node":"n","role":"compute","domain":"d","ssh_host_key":"secret\n"}}"#;
        let data = UserData::from_text(identity.as_bytes()).unwrap().unwrap();
        let texts = [true, false].map(|cloud_init| data.to_text(cloud_init).unwrap());
        let [text, plain] = texts.each_ref().map(SecretText::expose_secret);
        assert!(text.starts_with("#cloud-config\n{"), "{text}");
        assert!(text.contains(r#""disable_root":false"#) && text.contains("ed25519_private"), "{text}");
        assert!(text.contains(r#""users":[]"#) && text.contains(r#""locale":false"#), "{text}");
        for text in [text, plain] {
            assert!(UserData::from_text(text.as_bytes()) == Ok(Some(data.clone())));
        }
        for not_ours in ["#cloud-config\npackages: [vim]", r#"{"kiln":"a pot"}"#, ""] {
            assert!(UserData::from_text(not_ours.as_bytes()) == Ok(None));
        }
    }

    #[test]
    fn its_keys_are_not_shown() {
        let text = br#"{"kiln":{"cluster":"c","node":"n","role":"compute","domain":"d",
            "seal_key":"s3al","ssh_host_key":"h0st"}}"#;
        let data = UserData::from_text(text).unwrap().unwrap();
        let shown = format!("{data:?} {:?}", data.to_text(true));
        assert!(shown.contains("compute") && !shown.contains("s3al") && !shown.contains("h0st"), "{shown}");
    }

    #[test]
    fn an_identity_of_a_newer_kiln_is_told() {
        let Err(error) = UserData::from_text(br#"{"kiln":{"format":2}}"#) else { panic!("it was read") };
        assert!(error.to_string().contains("upgrade kiln on this host"), "{error}");
    }
}
