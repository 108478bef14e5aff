//! The dashboard as others on the network see it: part of the fleet file, which is a secret as a whole.

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::SecretText;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashboardSettings {
    pub port: u16,
    /// As browsers know it: `https://NAME:PORT`.
    pub address: String,
    /// What requests may be for.
    pub names: Vec<String>,
    /// Whom connections are taken from.
    pub from: Vec<Ipv4Net>,
    /// The key, its certificate, and those that signed it, in PEM.
    pub certificate: SecretText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcSettings>,
}

/// A provider of OpenID Connect, and who gets which role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcSettings {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: SecretText,
    /// Besides `openid`.
    pub scopes: Vec<String>,
    /// With what the next two name.
    pub claim: String,
    pub operators: Vec<String>,
    pub viewers: Vec<String>,
    /// The claim with somebody's name.
    pub name: String,
    /// `None`: all who have a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<String>>,
    /// On the way to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    pub url: String,
    /// Hosts and domains that are reached without it, with commas between them.
    pub except: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_secrets_are_not_shown() {
        let settings = DashboardSettings {
            port: 6831,
            address: "https://control:6831".into(),
            names: vec!["control".into()],
            from: vec!["192.0.2.0/24".parse().unwrap()],
            certificate: "s3cret".into(),
            oidc: Some(OidcSettings {
                issuer: "https://sso".into(),
                client_id: "kiln".into(),
                client_secret: "s3cret".into(),
                scopes: vec!["profile".into()],
                claim: "groups".into(),
                operators: vec!["admins".into()],
                viewers: Vec::new(),
                name: "preferred_username".into(),
                users: Some(vec!["ann".into()]),
                proxy: Some(Proxy { url: "http://proxy:3128".into(), except: "a,b".into() }),
            }),
        };
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<DashboardSettings>(&json).unwrap(), settings);
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
