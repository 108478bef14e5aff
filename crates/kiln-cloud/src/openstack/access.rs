//! What the control node may do: an application credential with access rules for what kilnd calls, and no more.
//!
//! Its secret is the cluster's own token, so nothing new has to be kept; a note in its description tells whether it
//! still is the right one. Its only role is `member`. A site may have a credential of its own instead: `control_login.rs`.
//! Keystone keeps access rules apart from the credentials that use them, so both are removed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use reqwest::Method;

use super::Settings;
use super::driver::Driver;
use super::fault::{no_rights, taken};
use super::labels::{describe, of_cluster};
use super::login::{Identity, Login, Named};
use super::session::{Caller, Role, Service, Session, Token};
use crate::remote::encode;
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
    /// Whose credential it is, if it is known by its name; `None`: by its id.
    #[serde(default)]
    user_id: Option<String>,
    credential: String,
    secret: SecretText,
    settings: Settings,
}

fn yes() -> bool {
    true
}

pub(super) fn access(
    login: &Login,
    user_id: Option<String>,
    credential: String,
    secret: SecretText,
    settings: &Settings,
) -> Access {
    Access {
        auth_url: login.auth_url.clone(),
        region: login.region.clone(),
        interface: login.interface.clone(),
        ca_bundle: login.ca_bundle.as_ref().map(|pem| String::from_utf8_lossy(pem).into_owned()),
        verify: login.verify,
        overrides: login.overrides.clone(),
        user_id,
        credential,
        secret,
        // Who logs in and where stands above.
        settings: Settings { cloud: None, control_credential: None, ..settings.clone() },
    }
}

#[derive(Debug, Deserialize)]
struct Credential {
    id: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    access_rules: Option<Vec<super::wire::Id>>,
    #[serde(default)]
    project_id: Option<String>,
}

impl Driver {
    pub fn at(access: &Access) -> Result<Driver> {
        let (user, credential) = match &access.user_id {
            Some(user) => (Some(Named::Id(user.clone())), Named::Name(access.credential.clone())),
            None => (None, Named::Id(access.credential.clone())),
        };
        let identity = Identity::ApplicationCredential {
            credential,
            user,
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
        if let Some(own) = self.control_login()? {
            return own.access(&self.settings).await;
        }
        // The control node acts as this user from now on.
        self.check_key_pair().await?;
        let user = self.client.session.token().await?.user_id.clone();
        let name = self.credential_name(cluster).await?;
        Ok(access(&self.client.session.login, Some(user), name, token.into(), &self.settings))
    }

    pub async fn grant(&self, cluster: &str, token: &str) -> Result<()> {
        if self.settings.control_credential.is_some() {
            // The site's own takes the place of one that Kiln made before.
            return self.revoke(cluster).await;
        }
        let session = self.client.session.token().await?;
        let rules = self.rules(&session)?;
        let role = least_role(&session.roles, &self.client.session.login)?;
        let digest = Sha256::digest(format!("{token} {ROLE} {}", Value::Array(rules.clone())));
        let description =
            format!("{} kiln_grant={}", describe(&of_cluster(cluster)), &hex::encode(digest)[..16]);
        let name = self.credential_name(cluster).await?;
        let is_it = |c: &Credential| c.name == name && c.description.as_deref() == Some(&description);
        if self.credentials(cluster).await?.iter().any(is_it) {
            return Ok(());
        }
        self.revoke(cluster).await?;
        let path = format!("/users/{}/application_credentials", session.user_id);
        let body = json!({ "application_credential": {
            "name": name,
            "description": description,
            "secret": token,
            "unrestricted": false,
            "roles": [{ "id": role.id }],
            "access_rules": rules,
        }});
        match self.client.request(Service::Identity, Method::POST, &path, Some(&body)).retried().await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => {
                // An earlier attempt made it, though its answer got lost.
                let own = self.credentials(cluster).await?.iter().any(is_it);
                own.then_some(())
                    .ok_or_else(|| taken(&format!("application credential {name}"), "this cluster's"))
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
        let there = match self.credentials(cluster).await {
            // A restricted credential may not look at credentials, and has made none. The site's own serves the control node.
            Err(error) if error.class == Class::NoRights && self.settings.control_credential.is_some() => {
                return Ok(());
            }
            answer => answer?,
        };
        for credential in there {
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

    /// The cluster's own.
    async fn credentials(&self, cluster: &str) -> Result<Vec<Credential>> {
        let mut own = self.named_credentials(cluster, &self.own_name(cluster).await?).await?;
        own.extend(self.named_credentials(cluster, &base(cluster)).await?);
        Ok(own)
    }

    /// By name, by what the description says, and by the project: another one of this person may have a cluster of the same name.
    async fn named_credentials(&self, cluster: &str, name: &str) -> Result<Vec<Credential>> {
        let user = self.client.session.token().await?.user_id.clone();
        let path = format!("/users/{user}/application_credentials?name={}", encode(name));
        let mut all: Vec<Credential> =
            self.client.get(Service::Identity, &path, "application_credentials").await?;
        let label = describe(&of_cluster(cluster));
        let project = self.client.project().await?;
        all.retain(|c| {
            let is_here = c.project_id.as_ref().is_none_or(|of| *of == project);
            c.name == name && is_here && c.description.as_deref().is_some_and(|d| d.starts_with(&label))
        });
        Ok(all)
    }

    /// A person's credentials for all projects and regions are in one list, and have different names there. One that an earlier
    /// release made keeps its shorter name, by which kilnd logs in.
    pub(super) async fn credential_name(&self, cluster: &str) -> Result<String> {
        if !self.named_credentials(cluster, &base(cluster)).await?.is_empty() {
            return Ok(base(cluster));
        }
        self.own_name(cluster).await
    }

    async fn own_name(&self, cluster: &str) -> Result<String> {
        let token = self.client.session.token().await?;
        let place = format!("{} {}", self.client.project().await?, self.client.session.region(&token));
        Ok(format!("{}_{}", base(cluster), &hex::encode(Sha256::digest(place))[..8]))
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

/// Enough for everything in [`NEEDED`], whatever else the person at the deploy host may do.
const ROLE: &str = "member";

/// Keystone and the services compare names of roles without their case.
fn least_role<'r>(roles: &'r [Role], login: &Login) -> Result<&'r Role> {
    roles.iter().find(|role| role.name.eq_ignore_ascii_case(ROLE)).ok_or_else(|| {
        let all: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        let all = if all.is_empty() { "none".to_string() } else { all.join(", ") };
        no_rights(format!(
            "the control node's application credential needs the role `{ROLE}`, which is not among the roles of this \
             login: {all} ({}); or set `control_credential` in [cloud]",
            login.whose()
        ))
    })
}

/// No cluster's name has an underscore.
fn base(cluster: &str) -> String {
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
            ("GET", "/ports/*"),
            ("POST", "/ports"),
            ("DELETE", "/ports/*"),
            ("GET", "/networks"),
            ("GET", "/subnets"),
            ("GET", "/security-groups"),
            ("GET", "/floatingips"),
            ("DELETE", "/floatingips/*"),
        ],
    ),
    (Service::Image, &[("GET", "/images"), ("GET", "/images/*"), ("GET", "/images/*/file")]),
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

    /// Roles that imply others bring them along: administrators have `member`, too.
    #[test]
    fn of_all_roles_only_member_is_passed_on() {
        let role = |name: &str| Role { id: format!("id-of-{name}"), name: name.into() };
        let login = Login::test("https://id.example.org/v3");
        let all = [role("reader"), role("admin"), role("Member")];
        assert_eq!(least_role(&all, &login).unwrap().id, "id-of-Member");
        let told = |roles: &[Role]| least_role(roles, &login).unwrap_err().to_string();
        assert!(told(&all[..2]).contains("of this login: reader, admin ("), "{}", told(&all[..2]));
        assert!(told(&[]).contains("of this login: none ("), "{}", told(&[]));
    }

    /// For sites that make the credential themselves.
    #[test]
    fn the_docs_list_what_is_needed() {
        let docs = include_str!("../../../../docs/openstack.md");
        for (service, rules) in NEEDED {
            let all: Vec<String> = rules.iter().map(|(method, path)| format!("`{method} {path}`")).collect();
            let name = if *service == Service::Volume { "volume" } else { service.types()[0] };
            let row = format!("| {name} | {} |", all.join(", "));
            assert!(docs.contains(&row), "docs/openstack.md lacks:\n{row}");
        }
    }

    #[test]
    fn a_service_is_known_by_both_its_paths() {
        assert_eq!(prefixes("http://127.0.0.1:8774/v2.1"), ["/v2.1"]);
        assert_eq!(prefixes("https://cloud.example.org/compute/v2.1"), ["/compute/v2.1", "/v2.1"]);
        assert_eq!(prefixes("https://volumes.example.org/v3/abc"), ["/v3/abc"]);
    }
}
