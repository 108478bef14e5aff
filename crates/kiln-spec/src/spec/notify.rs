//! Whom kilnd tells when something matters.

use std::time::Duration;

use serde::Serialize;

use super::Credentials;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notify {
    pub mail: Option<MailSpec>,
    pub webhook: Option<WebhookSpec>,
    /// Words of [`crate::NOTIFY_TOPICS`].
    pub about: Vec<String>,
    /// Between two messages about the same thing.
    pub every: Duration,
    /// With `{cluster}`, `{title}` and `{text}`.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailSpec {
    pub host: String,
    pub port: u16,
    pub from: String,
    pub to: Vec<String>,
    /// `off`, `starttls` or `tls`.
    pub tls: String,
    /// Where `USER:PASSWORD` is.
    pub credentials: Option<Credentials>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookSpec {
    /// Where the address is.
    pub address: Credentials,
    /// A word of [`crate::NOTIFY_FORMS`].
    pub form: String,
}
