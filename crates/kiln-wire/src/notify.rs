//! Whom kilnd tells when something matters: part of the fleet file, which is a secret as a whole.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SecretText;
use crate::format::{Format, Version};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifySettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Mail>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    pub about: Vec<Topic>,
    /// Seconds between two messages about the same thing.
    pub every: u64,
    /// With `{cluster}`, `{title}` and `{text}`.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    pub host: String,
    pub port: u16,
    pub from: String,
    pub to: Vec<String>,
    #[serde(default)]
    pub tls: MailTls,
    /// `USER:PASSWORD`, for a server that wants them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretText>,
}

/// Whether mail is encrypted on its way to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    #[default]
    Off,
    /// It begins in the clear, and nothing is sent unless it is encrypted then.
    Starttls,
    /// From the beginning.
    Tls,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub address: SecretText,
    pub form: Form,
}

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// It has halted, is done or was rolled back.
    Rollout,
    /// An elastic group pauses, or its nodes come up again.
    Group,
    /// Kiln took a node out of service.
    Drain,
    /// kilnd cannot see Slurm or the cloud, or sees them again.
    Blind,
    /// A backup has failed.
    Backup,
}

/// What a webhook is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    Json,
    Slack,
    Matrix,
}

impl FromStr for Topic {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        from_word(word)
    }
}

impl FromStr for MailTls {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        from_word(word)
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        from_word(word)
    }
}

fn from_word<T: serde::de::DeserializeOwned>(word: &str) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|_| format!("{word:?} is not known"))
}

/// What came of a message that was sent to try whether messages arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyReport {
    #[serde(default)]
    pub format: Version<1>,
    /// `mail` or `webhook`.
    pub channel: String,
    /// `None`: it was accepted.
    pub problem: Option<String>,
}

impl Format for NotifyReport {
    const NAME: &'static str = "report on a test message";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_address_is_not_shown() {
        let settings = NotifySettings {
            mail: Some(Mail {
                host: "mail".into(),
                port: 587,
                from: "a@b".into(),
                to: vec!["c@d".into()],
                tls: "starttls".parse().unwrap(),
                credentials: Some("me:s3cret".into()),
            }),
            webhook: Some(Webhook { address: "https://h/s3cret".into(), form: "slack".parse().unwrap() }),
            about: vec![Topic::Rollout, "blind".parse().unwrap()],
            every: 900,
            text: "{text}".into(),
        };
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<NotifySettings>(&json).unwrap(), settings);
        assert!(!format!("{settings:?}").contains("s3cret"));
        assert!("pigeon".parse::<Form>().is_err());
    }
}
