//! What the control node may do: an application credential with access rules for what kilnd calls, and no more.
//!
//! Its secret is the cluster's own token, so nothing new has to be kept; a note in its description tells whether it
//! still is the right one. Keystone keeps access rules apart from the credentials that use them, so both are removed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use reqwest::Method;

use super::Settings;
use super::client::encode;
use super::driver::Driver;
use super::fault::{no_rights, taken};
use super::labels::{describe, of_cluster};
use super::login::{Identity, Login, Named};
use super::session::{Caller, Service, Session, Token};
use crate::{Class, Error, Result};
use kiln_wire::SecretText;

/// How kilnd logs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    auth_url: String,
    #[serde(default)]
    region: Option<String>,
    interface: String,
    /// PEM.
    #[serde(default)]
    ca_bundle: Option<String>,
    #[serde(default = "yes")]
    verify: bool,
    /// Where services are, in place of what the catalog says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    overrides: BTreeMap<String, String>,
    user_id: String,
    credential: String,
    secret: SecretText,
    settings: Settings,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
struct Credential {
    id: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    access_rules: Option<Vec<super::wire::Id>>,
}

impl Driver {
    pub fn at(access: &Access) -> Result<Driver> {
        let identity = Identity::ApplicationCredential {
            credential: Named::Name(access.credential.clone()),
            user: Some(Named::Id(access.user_id.clone())),
            domain: Named::Id("default".into()),
            secret: access.secret.clone(),
        };
        let login = Login {
            auth_url: access.auth_url.clone(),
            identity,
            region: access.region.clone(),
            interface: access.interface.clone(),
            ca_bundle: access.ca_bundle.as_ref().map(|pem| pem.clone().into_bytes()),
            verify: access.verify,
            origin: "the fleet file".into(),
            overrides: access.overrides.clone(),
        };
        Driver::with_login(login, access.settings.clone(), Caller::Daemon)
    }

    pub async fn access(&self, cluster: &str, token: &str) -> Result<Access> {
        let login = &self.client.session.login;
        let ca_bundle = login.ca_bundle.as_ref().map(|pem| String::from_utf8_lossy(pem).into_owned());
        Ok(Access {
            auth_url: login.auth_url.clone(),
            region: login.region.clone(),
            interface: login.interface.clone(),
            ca_bundle,
            verify: login.verify,
            overrides: login.overrides.clone(),
            user_id: self.client.session.token().await?.user_id.clone(),
            credential: name(cluster),
            secret: token.into(),
            // Who logs in and where stands above.
            settings: Settings { cloud: None, ..(*self.settings).clone() },
        })
    }

    pub async fn grant(&self, cluster: &str, token: &str) -> Result<()> {
        let session = self.client.session.token().await?;
        let rules = self.rules(&session)?;
        let digest = Sha256::digest(format!("{token} {}", Value::Array(rules.clone())));
        let description =
            format!("{} kiln_grant={}", describe(&of_cluster(cluster)), &hex::encode(digest)[..16]);
        let there = self.credentials(cluster).await?;
        if there.iter().any(|c| c.description.as_deref() == Some(&description)) {
            return Ok(());
        }
        self.revoke(cluster).await?;
        let path = format!("/users/{}/application_credentials", session.user_id);
        let body = json!({ "application_credential": {
            "name": name(cluster),
            "description": description,
            "secret": token,
            "unrestricted": false,
            "access_rules": rules,
        }});
        match self.client.request(Service::Identity, Method::POST, &path, Some(&body)).retried().await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => {
                let there = self.credentials(cluster).await?;
                // An earlier attempt made it, though its answer got lost.
                let own = there.iter().any(|c| c.description.as_deref() == Some(&description));
                own.then_some(()).ok_or_else(|| {
                    let name = name(cluster);
                    taken(&format!("application credential {name}"), "this cluster's")
                })
            }
            Err(error) if error.class == Class::NoRights => Err(no_rights(format!(
                "no application credential can be made for the control node; one that logs in itself must be \
                 unrestricted for that ({})",
                self.client.session.login.whose()
            ))),
            Err(error) => Err(error),
        }
    }

    pub async fn revoke(&self, cluster: &str) -> Result<()> {
        let user = self.client.session.token().await?.user_id.clone();
        for credential in self.credentials(cluster).await? {
            let path = format!("/users/{user}/application_credentials/{}", credential.id);
            self.client.delete(Service::Identity, &path).await?;
            for rule in credential.access_rules.unwrap_or_default() {
                let path = format!("/users/{user}/access_rules/{}", rule.id);
                match self.client.delete(Service::Identity, &path).await {
                    // Another credential of the same person has the same rule.
                    Ok(()) | Err(Error { class: Class::NoRights | Class::Conflict, .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The cluster's own: by name, and by what the description says.
    async fn credentials(&self, cluster: &str) -> Result<Vec<Credential>> {
        let user = self.client.session.token().await?.user_id.clone();
        let path = format!("/users/{user}/application_credentials?name={}", encode(&name(cluster)));
        let mut all: Vec<Credential> =
            self.client.get(Service::Identity, &path, "application_credentials").await?;
        let label = describe(&of_cluster(cluster));
        all.retain(|c| {
            c.name == name(cluster) && c.description.as_deref().is_some_and(|d| d.starts_with(&label))
        });
        Ok(all)
    }

    /// Access rules for every path that these services may see: with the prefix they are published under and without.
    fn rules(&self, token: &Token) -> Result<Vec<Value>> {
        let mut rules = Vec::new();
        for (service, methods) in NEEDED {
            let url = match self.client.session.endpoint(token, *service) {
                Ok(url) => url,
                // A cloud without volumes is a cloud all the same.
                Err(_) if *service == Service::Volume => continue,
                Err(error) => return Err(error),
            };
            for kind in Session::listed_types(token, *service) {
                for prefix in prefixes(&url) {
                    rules.extend(methods.iter().map(|(method, path)| {
                        json!({ "service": kind, "method": method, "path": format!("{prefix}{path}") })
                    }));
                }
            }
        }
        Ok(rules)
    }
}

/// No cluster's name has an underscore.
pub(super) fn name(cluster: &str) -> String {
    format!("kiln_{cluster}")
}

/// What kilnd calls: it looks, rebuilds and reboots, and it makes and deletes nodes of elastic groups. Networks,
/// security groups, volumes, images and credentials are not its to change.
const NEEDED: &[(Service, &[(&str, &str)])] = &[
    (
        Service::Compute,
        &[
            ("GET", "/"),
            ("GET", "/servers"),
            ("GET", "/servers/detail"),
            ("GET", "/servers/*"),
            ("POST", "/servers"),
            ("DELETE", "/servers/*"),
            ("POST", "/servers/*/action"),
            ("PUT", "/servers/*/metadata"),
            ("GET", "/flavors/detail"),
            ("GET", "/os-keypairs/*"),
            ("POST", "/os-keypairs"),
            ("GET", "/os-server-groups"),
            ("POST", "/os-server-groups"),
        ],
    ),
    (
        Service::Network,
        &[
            ("GET", "/ports"),
            ("POST", "/ports"),
            ("DELETE", "/ports/*"),
            ("GET", "/networks"),
            ("GET", "/subnets"),
            ("GET", "/security-groups"),
            ("GET", "/floatingips"),
            ("DELETE", "/floatingips/*"),
        ],
    ),
    (Service::Image, &[("GET", "/images"), ("GET", "/images/*")]),
    (Service::Volume, &[("GET", "/volumes/detail"), ("GET", "/volumes/*")]),
];

/// `https://host/compute/v2.1` is `/compute/v2.1` to some servers and `/v2.1` to others.
fn prefixes(url: &str) -> Vec<String> {
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or("");
    let mut all = vec![path.to_string()];
    let version =
        path.match_indices("/v").find(|(at, _)| path[at + 2..].starts_with(|c: char| c.is_ascii_digit()));
    if let Some((at, _)) = version.filter(|(at, _)| *at > 0) {
        all.push(path[at..].to_string());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_both_its_paths() {
        assert_eq!(prefixes("http://127.0.0.1:8774/v2.1"), ["/v2.1"]);
        assert_eq!(prefixes("https://cloud.example.org/compute/v2.1"), ["/compute/v2.1", "/v2.1"]);
        assert_eq!(prefixes("https://volumes.example.org/v3/abc"), ["/v3/abc"]);
    }
}
