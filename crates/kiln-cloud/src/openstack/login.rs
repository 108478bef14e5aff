//! Who logs in where: from `clouds.yaml` in its usual places, or from the `OS_*` variables.
//!
//! The rules are those of the official client: a cloud is named by the cluster file or by `OS_CLOUD`; without a
//! name the variables must say it all.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::clouds_yaml::{expand_home, from_files};
use crate::{Error, Result};
use kiln_wire::SecretText;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Of the identity service, with its version.
    pub auth_url: String,
    pub identity: Identity,
    pub region: Option<String>,
    /// Which of a service's endpoints: `public`, `internal` or `admin`.
    pub interface: String,
    /// PEM.
    pub ca_bundle: Option<Vec<u8>>,
    /// `false`: certificates are not looked at.
    pub verify: bool,
    /// Where this was written, for messages.
    pub origin: String,
    /// Endpoints to use in place of the catalog's, by the first word of their keys: `compute`, `image`, ...
    pub overrides: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Password {
        user: Named,
        domain: Named,
        password: SecretText,
        scope: Scope,
    },
    /// With the id alone, or with a name and its user.
    ApplicationCredential {
        credential: Named,
        user: Option<Named>,
        domain: Named,
        secret: SecretText,
    },
    Token {
        token: SecretText,
        scope: Scope,
    },
}

/// By id if there is one, else by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    Id(String),
    Name(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub project: Named,
    pub domain: Named,
}

impl Named {
    pub fn text(&self) -> &str {
        match self {
            Named::Id(text) | Named::Name(text) => text,
        }
    }

    fn json(&self) -> Map<String, Value> {
        let (key, text) = match self {
            Named::Id(text) => ("id", text),
            Named::Name(text) => ("name", text),
        };
        Map::from_iter([(key.to_string(), json!(text))])
    }

    /// An id stands for itself; a name needs the domain it is in.
    fn within(&self, domain: &Named) -> Map<String, Value> {
        let mut map = self.json();
        if matches!(self, Named::Name(_)) {
            map.insert("domain".into(), Value::Object(domain.json()));
        }
        map
    }
}

impl Scope {
    fn json(&self) -> Value {
        json!({ "project": self.project.within(&self.domain) })
    }
}

impl Login {
    /// `cloud` and `region`: what the cluster file says, which goes before the environment.
    pub fn find(cloud: Option<&str>, region: Option<&str>) -> Result<Login> {
        let environment = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let name = cloud.map(String::from).or_else(|| environment("OS_CLOUD"));
        let mut login = match name {
            Some(name) => from_files(&name, &environment)?,
            None => from_environment(&environment)?,
        };
        login.region = region.map(String::from).or(login.region).or_else(|| environment("OS_REGION_NAME"));
        Ok(login)
    }

    /// The body of the request for a token.
    pub fn request(&self) -> Value {
        let (identity, scope) = match &self.identity {
            Identity::Password { user, domain, password, scope } => {
                let mut user = user.within(domain);
                user.insert("password".into(), json!(password));
                let identity = json!({ "methods": ["password"], "password": { "user": user } });
                (identity, Some(scope))
            }
            Identity::ApplicationCredential { credential, user, domain, secret } => {
                let mut body = credential.json();
                body.insert("secret".into(), json!(secret));
                if let Some(user) = user {
                    body.insert("user".into(), Value::Object(user.within(domain)));
                }
                let identity =
                    json!({ "methods": ["application_credential"], "application_credential": body });
                (identity, None)
            }
            Identity::Token { token, scope } => {
                (json!({ "methods": ["token"], "token": { "id": token } }), Some(scope))
            }
        };
        let mut auth = json!({ "identity": identity });
        if let Some(scope) = scope {
            auth["scope"] = scope.json();
        }
        json!({ "auth": auth })
    }

    /// Whose credentials these are, for messages. Without any secret.
    pub fn whose(&self) -> String {
        let who = match &self.identity {
            Identity::Password { user, scope, .. } => {
                format!("user {}, project {}", user.text(), scope.project.text())
            }
            Identity::ApplicationCredential { credential, .. } => {
                format!("application credential {}", credential.text())
            }
            Identity::Token { scope, .. } => format!("a token, project {}", scope.project.text()),
        };
        format!("{who}; {}", self.origin)
    }
}

/// A variable of the environment, if it is set to something.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

fn from_environment(environment: Environment<'_>) -> Result<Login> {
    if environment("OS_AUTH_URL").is_none() {
        return Err(Error::unsupported(
            "no OpenStack cloud is named: set `cloud` in [cloud], or OS_CLOUD, or OS_AUTH_URL and its companions",
        ));
    }
    let auth = |key: &str| environment(&format!("OS_{}", key.to_uppercase()));
    let services = ["compute", "image", "network", "volume", "block_storage"];
    let overrides = services.into_iter().filter_map(|service| {
        let variable = format!("OS_{}_ENDPOINT_OVERRIDE", service.to_uppercase());
        Some((service.to_string(), environment(&variable)?))
    });
    build(&Facts {
        auth: &auth,
        auth_type: environment("OS_AUTH_TYPE"),
        region: environment("OS_REGION_NAME"),
        interface: environment("OS_INTERFACE").or_else(|| environment("OS_ENDPOINT_TYPE")),
        ca: environment("OS_CACERT").map(|path| expand_home(&path)),
        verify: !environment("OS_INSECURE")
            .is_some_and(|v| ["1", "true", "yes"].contains(&&*v.to_lowercase())),
        overrides: overrides.collect(),
        origin: "the OS_* variables".to_string(),
    })
}

/// What was said, wherever it was said.
pub(super) struct Facts<'a> {
    /// A key of `auth`.
    pub auth: &'a dyn Fn(&str) -> Option<String>,
    pub auth_type: Option<String>,
    pub region: Option<String>,
    pub interface: Option<String>,
    pub ca: Option<PathBuf>,
    pub verify: bool,
    pub overrides: BTreeMap<String, String>,
    pub origin: String,
}

pub(super) fn build(facts: &Facts<'_>) -> Result<Login> {
    let missing = |key: &str| Error::unsupported(format!("{}: `{key}` is missing", facts.origin));
    let auth_url = (facts.auth)("auth_url").ok_or_else(|| missing("auth_url"))?;
    let ca_bundle = match &facts.ca {
        None => None,
        Some(path) => Some(std::fs::read(path).map_err(|e| {
            Error::unsupported(format!("{}: CA bundle {} cannot be read", facts.origin, path.display()))
                .because(e)
        })?),
    };
    let interface = facts.interface.as_deref().unwrap_or("public");
    let interface = interface.strip_suffix("URL").unwrap_or(interface);
    if !["public", "internal", "admin"].contains(&interface) {
        return Err(Error::unsupported(format!(
            "{}: interface `{interface}` is none of public, internal, admin",
            facts.origin
        )));
    }
    Ok(Login {
        auth_url: identity_url(&auth_url),
        identity: identity(facts)?,
        region: facts.region.clone(),
        interface: interface.to_string(),
        ca_bundle,
        verify: facts.verify,
        origin: facts.origin.clone(),
        overrides: facts.overrides.clone(),
    })
}

fn identity(facts: &Facts<'_>) -> Result<Identity> {
    let get = facts.auth;
    let missing = |key: &str| Error::unsupported(format!("{}: `{key}` is missing", facts.origin));
    let named = |id: &[&str], name: &[&str]| {
        let first = |keys: &[&str]| keys.iter().find_map(|key| get(key));
        first(id).map(Named::Id).or_else(|| first(name).map(Named::Name))
    };
    let default = || Named::Id("default".to_string());
    let user_domain =
        named(&["user_domain_id", "domain_id", "default_domain"], &["user_domain_name", "domain_name"])
            .unwrap_or_else(default);
    let scope = || -> Result<Scope> {
        let project = named(&["project_id", "tenant_id"], &["project_name", "tenant_name"])
            .ok_or_else(|| missing("project_name"))?;
        let domain =
            named(&["project_domain_id"], &["project_domain_name"]).unwrap_or_else(|| user_domain.clone());
        Ok(Scope { project, domain })
    };
    let kind = facts.auth_type.as_deref().unwrap_or_default();
    let kind = kind.strip_prefix("v3").unwrap_or(kind);
    let credential = named(&["application_credential_id"], &["application_credential_name"]);
    match (kind, credential) {
        ("" | "applicationcredential", Some(credential)) => Ok(Identity::ApplicationCredential {
            user: match credential {
                Named::Id(_) => None,
                Named::Name(_) => {
                    Some(named(&["user_id"], &["username", "user_name"]).ok_or_else(|| missing("username"))?)
                }
            },
            credential,
            domain: user_domain,
            secret: get("application_credential_secret")
                .ok_or_else(|| missing("application_credential_secret"))?
                .into(),
        }),
        ("applicationcredential", None) => Err(missing("application_credential_id")),
        ("" | "password", _) if kind == "password" || get("token").is_none() => Ok(Identity::Password {
            user: named(&["user_id"], &["username", "user_name"]).ok_or_else(|| missing("username"))?,
            domain: user_domain.clone(),
            password: get("password").ok_or_else(|| missing("password"))?.into(),
            scope: scope()?,
        }),
        ("" | "token", _) => Ok(Identity::Token {
            token: get("token").ok_or_else(|| missing("token"))?.into(),
            scope: scope()?,
        }),
        (other, _) => Err(Error::unsupported(format!(
            "{}: Kiln cannot log in with auth_type `{other}`; password, token and application credentials work",
            facts.origin
        ))),
    }
}

/// People write the identity service's address with and without its version.
fn identity_url(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.rsplit_once('/') {
        Some((_, "v3")) => url.to_string(),
        Some((before, "v2.0")) => format!("{before}/v3"),
        _ => format!("{url}/v3"),
    }
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
