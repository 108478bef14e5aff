//! Prometheus, its alerts, and whom they are sent to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::Credentials;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Monitoring {
    /// How long figures are kept.
    pub retention: Duration,
    /// At most this much of the state volume is used for them.
    pub size_gib: u64,
    /// Between two readings of a figure, and between two evaluations of the alert rules.
    pub interval: Duration,
    /// How long something must be wrong before an alert fires.
    pub alert_after: Duration,
    /// Of an hour of an instance, by flavor.
    pub prices: BTreeMap<String, f64>,
    /// Whether the control node's image has Grafana, which is to show the figures.
    pub grafana: bool,
    pub mail: Option<AlertMail>,
    /// In the order of the file.
    pub webhooks: Vec<Webhook>,
}

impl Monitoring {
    /// Whether alerts are sent to anyone.
    pub fn has_receivers(&self) -> bool {
        self.mail.is_some() || !self.webhooks.is_empty()
    }
}

/// Alerts by mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlertMail {
    pub to: Vec<String>,
    pub from: String,
    /// `HOST:PORT`
    pub server: String,
    pub credentials: Option<Credentials>,
    /// Whether mail goes over TLS alone.
    pub tls: bool,
}

/// A program of the site that alerts are posted to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Webhook {
    pub name: String,
    pub address: WebhookAddress,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookAddress {
    Plain(String),
    /// Whoever knows the address may post there, so it is not in the file.
    Secret(Credentials),
}
