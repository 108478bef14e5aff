//! A secret that travels: a key, a token, a password, or text that holds one.

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};

/// `Debug` does not show it, and its memory is overwritten when it is dropped. To use it, ask for it by name, so that a
/// reader sees each place. It is written as it is into what is a secret itself: user data, the fleet file, a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct SecretText(SecretString);

impl SecretText {
    pub fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        SecretText(text.into())
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        SecretText(text.into())
    }
}

impl PartialEq for SecretText {
    fn eq(&self, other: &Self) -> bool {
        self.expose_secret() == other.expose_secret()
    }
}

impl Eq for SecretText {}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose_secret())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_and_read_but_not_shown() {
        let secret = SecretText::from("s3cret");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"s3cret\"");
        assert_eq!(serde_json::from_str::<SecretText>("\"s3cret\"").unwrap(), secret);
        assert!(!format!("{secret:?} {secret:#?}").contains("s3cret"));
    }
}
