//! One token for all calls: asked for when the first call needs it, renewed before it expires or when a service
//! no longer takes it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_wire::SecretText;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::fault::{fault, no_answer, no_rights};
use super::login::Login;
use crate::retry::{Policy, retry};
use crate::{Class, Error, Result};

/// A token that ends sooner than this is not used for another call.
const MARGIN: SignedDuration = SignedDuration::from_secs(120);
/// The first time, a wrong address is likelier than an outage: a person waits for the answer.
const FIRST: Policy =
    Policy { base: Duration::from_millis(300), cap: Duration::from_secs(5), budget: Duration::from_secs(15) };

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    Compute,
    Image,
    Network,
    Volume,
    Identity,
}

impl Service {
    /// What catalogs call it, the usual name first.
    pub fn types(self) -> &'static [&'static str] {
        match self {
            Service::Compute => &["compute"],
            Service::Image => &["image"],
            Service::Network => &["network"],
            Service::Volume => &["block-storage", "volumev3", "block-store", "volume"],
            Service::Identity => &["identity"],
        }
    }

    /// The first word of a key such as `compute_endpoint_override`.
    fn override_keys(self) -> &'static [&'static str] {
        match self {
            Service::Compute => &["compute"],
            Service::Image => &["image"],
            Service::Network => &["network"],
            Service::Volume => &["block_storage", "volume", "volumev3"],
            Service::Identity => &["identity"],
        }
    }
}

#[derive(Debug, Clone)]
pub struct Token {
    pub value: SecretText,
    expires: Timestamp,
    pub user_id: String,
    /// `None`: a token without a project.
    pub project: Option<Project>,
    pub roles: Vec<Role>,
    catalog: Arc<[CatalogService]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Project {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Role {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Deserialize)]
struct CatalogService {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region_id: Option<String>,
    #[serde(default)]
    region: Option<String>,
    url: String,
}

impl Endpoint {
    fn region(&self) -> &str {
        self.region_id.as_deref().or(self.region.as_deref()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Answer {
    token: AnsweredToken,
}

#[derive(Deserialize)]
struct AnsweredToken {
    expires_at: Timestamp,
    user: User,
    #[serde(default)]
    project: Option<Project>,
    #[serde(default)]
    roles: Vec<Role>,
    #[serde(default)]
    catalog: Vec<CatalogService>,
}

#[derive(Deserialize)]
struct User {
    id: String,
}

pub struct Session {
    pub login: Login,
    http: reqwest::Client,
    token: Mutex<Option<Arc<Token>>>,
    caller: Caller,
}

/// Who waits for the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// At a terminal, with credentials that may be wrong.
    Person,
    /// With credentials that worked before. An outage of Keystone is like one of any service.
    Daemon,
}

impl Session {
    pub fn new(login: Login, http: reqwest::Client, caller: Caller) -> Session {
        Session { login, http, token: Mutex::new(None), caller }
    }

    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Callers that come while one is being fetched wait for that one.
    pub async fn token(&self) -> Result<Arc<Token>> {
        let mut held = self.token.lock().await;
        if let Some(token) = held.as_ref().filter(|t| t.expires - MARGIN > Timestamp::now()) {
            return Ok(token.clone());
        }
        let token = if held.is_some() {
            retry(&Policy::REMOTE, |_| self.log_in()).await?
        } else {
            retry(&FIRST, |_| self.log_in()).await.map_err(|error| match error.class {
                // Final: whoever called would try again for minutes.
                Class::Unanswered if self.caller == Caller::Person => error.sorted(Class::Unsupported),
                _ => error,
            })?
        };
        let token = Arc::new(token);
        *held = Some(token.clone());
        Ok(token)
    }

    /// A service did not take this token: the next call fetches another, unless somebody has already.
    pub async fn refuse(&self, token: &Arc<Token>) {
        let mut held = self.token.lock().await;
        if held.as_ref().is_some_and(|t| Arc::ptr_eq(t, token)) {
            *held = Some(Arc::new(Token { expires: Timestamp::UNIX_EPOCH, ..Token::clone(token) }));
        }
    }

    async fn log_in(&self) -> Result<Token> {
        let url = format!("{}/auth/tokens", self.login.auth_url);
        let response = self.http.post(&url).json(&self.login.request()).send().await;
        let at = format!("{} ({})", self.login.auth_url, self.login.origin);
        let response = response.map_err(|e| no_answer(e, &at))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(|e| no_answer(e, &at))?;
        let unexpected = || {
            Error::unsupported(format!(
                "{}: what answers at {} is not an identity service",
                self.login.origin, self.login.auth_url
            ))
        };
        if !status.is_success() {
            return Err(match fault(status, &headers, &body, &reqwest::Method::POST, &url) {
                error if error.class == Class::NoRights => no_rights(self.login.whose()),
                // Keystone's answer to a credential that it does not have.
                error if error.is_not_found() && is_about_credential(&body) => no_rights(self.login.whose()),
                error if error.is_not_found() => Error::unsupported(format!(
                    "{}: there is no identity service at {}",
                    self.login.origin, self.login.auth_url
                )),
                // Keystone says what it does not like; others say anything at all.
                error if error.class == Class::Refused && !is_keystone(&body) => unexpected(),
                other => other,
            });
        }
        let value = headers.get("x-subject-token").and_then(|v| v.to_str().ok()).ok_or_else(unexpected)?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| unexpected())?;
        Ok(Token {
            value: value.into(),
            expires: answer.token.expires_at,
            user_id: answer.token.user.id,
            project: answer.token.project,
            roles: answer.token.roles,
            catalog: answer.token.catalog.into(),
        })
    }

    /// Where a service is, without a slash at the end.
    pub fn endpoint(&self, token: &Token, service: Service) -> Result<String> {
        if service == Service::Identity {
            return Ok(self.login.auth_url.clone());
        }
        let own = service.override_keys().iter().find_map(|key| self.login.overrides.get(*key));
        if let Some(url) = own {
            return Ok(url.trim_end_matches('/').to_string());
        }
        let url = self.catalogued(token, service)?;
        let url = url.trim_end_matches('/');
        // These two are listed without their version.
        Ok(match service {
            Service::Network if !url.ends_with("/v2.0") => format!("{url}/v2.0"),
            Service::Image if !url.ends_with("/v2") => format!("{url}/v2"),
            _ => url.to_string(),
        })
    }

    /// The one that is named, or the only one there is.
    pub fn region(&self, token: &Token) -> String {
        let only = || self.chosen(token, Service::Compute).map(|endpoint| endpoint.region().to_string());
        self.login.region.clone().or_else(|| only().ok()).unwrap_or_default()
    }

    fn catalogued<'t>(&self, token: &'t Token, service: Service) -> Result<&'t str> {
        self.chosen(token, service).map(|endpoint| endpoint.url.as_str())
    }

    fn chosen<'t>(&self, token: &'t Token, service: Service) -> Result<&'t Endpoint> {
        let name = service.types()[0];
        let of_service: Vec<&Endpoint> = service
            .types()
            .iter()
            // Some clouds have one entry for each region.
            .map(|kind| token.catalog.iter().filter(|s| s.kind == *kind).flat_map(|s| &s.endpoints))
            .map(|all| all.filter(|e| e.interface == self.login.interface).collect())
            .find(|all: &Vec<&Endpoint>| !all.is_empty())
            .unwrap_or_default();
        let mut regions: Vec<&str> = of_service.iter().map(|e| e.region()).collect();
        regions.sort_unstable();
        regions.dedup();
        match &self.login.region {
            None if regions.len() > 1 => Err(Error::unsupported(format!(
                "{}: the cloud has the regions {}; set `region` in [cloud] or region_name in clouds.yaml",
                self.login.origin,
                regions.join(", ")
            ))),
            _ if of_service.is_empty() => Err(Error::unsupported(format!(
                "{}: the cloud has no {name} service with a {} endpoint",
                self.login.origin, self.login.interface
            ))),
            Some(wanted) if !regions.contains(&wanted.as_str()) => Err(Error::unsupported(format!(
                "{}: there is no region `{wanted}`; the cloud has {}",
                self.login.origin,
                regions.join(", ")
            ))),
            wanted => {
                let chosen = |e: &&&Endpoint| wanted.as_ref().is_none_or(|w| e.region() == w);
                of_service.iter().find(chosen).copied().ok_or_else(|| {
                    Error::unsupported(format!("{}: the cloud has no {name} service", self.login.origin))
                })
            }
        }
    }

    /// The types under which the catalog has this service.
    pub fn listed_types(token: &Token, service: Service) -> Vec<&'static str> {
        let listed = |kind: &&&str| token.catalog.iter().any(|s| s.kind == **kind);
        service.types().iter().filter(listed).copied().collect()
    }
}

fn is_about_credential(body: &[u8]) -> bool {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    message.to_lowercase().contains("application credential")
}

fn is_keystone(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|v: serde_json::Value| v["error"]["message"].is_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        let answer: Answer = serde_json::from_str(text).unwrap();
        Token {
            value: SecretText::default(),
            expires: answer.token.expires_at,
            user_id: answer.token.user.id,
            project: answer.token.project,
            roles: answer.token.roles,
            catalog: answer.token.catalog.into(),
        }
    }

    fn session(region: Option<&str>) -> Session {
        let mut login = Login::test("https://id.example.org/v3");
        login.region = region.map(String::from);
        Session::new(login, crate::http::plain(Duration::from_secs(1)), Caller::Person)
    }

    const TWO: &str = r#"{"token": {"expires_at": "2026-11-15T07:00:00.000000Z", "user": {"id": "u"}, "catalog": [
        {"type": "compute", "endpoints": [
            {"interface": "public", "region_id": "north", "url": "https://n.example.org/v2.1/"},
            {"interface": "internal", "region_id": "north", "url": "https://inside/v2.1"},
            {"interface": "public", "region_id": "south", "url": "https://s.example.org/v2.1"}]},
        {"type": "network", "endpoints": [{"interface": "public", "region": "south", "url": "https://snet:9696"}]},
        {"type": "network", "endpoints": [{"interface": "public", "region": "north", "url": "https://net:9696"}]},
        {"type": "volumev3", "endpoints": [{"interface": "public", "region_id": "north", "url": "https://vol/v3/p"}]}
    ]}}"#;

    #[test]
    fn the_catalog_says_where_services_are() {
        let (token, session) = (token(TWO), session(Some("north")));
        let at = |service| session.endpoint(&token, service).unwrap();
        assert_eq!(at(Service::Compute), "https://n.example.org/v2.1");
        assert_eq!(at(Service::Network), "https://net:9696/v2.0");
        assert_eq!(at(Service::Volume), "https://vol/v3/p");
        assert_eq!(at(Service::Identity), "https://id.example.org/v3");
    }

    /// kilnd must not take an outage of Keystone for something that trying again cannot help.
    #[tokio::test(start_paused = true)]
    async fn an_outage_at_the_first_login_is_final_for_people_only() {
        let told = async |caller| {
            // Nobody listens there.
            let login = Login::test("http://127.0.0.1:1/v3");
            let session = Session::new(login, crate::http::plain(Duration::from_secs(1)), caller);
            session.token().await.err()
        };
        assert!(matches!(told(Caller::Person).await, Some(Error { class: Class::Unsupported, .. })));
        assert!(matches!(told(Caller::Daemon).await, Some(Error { class: Class::Unanswered, .. })));
    }

    #[test]
    fn a_region_is_needed_where_there_are_several() {
        let told = |region| session(region).endpoint(&token(TWO), Service::Compute).unwrap_err().to_string();
        assert_eq!(
            told(None),
            "the test: the cloud has the regions north, south; set `region` in [cloud] or region_name in clouds.yaml"
        );
        assert_eq!(told(Some("east")), "the test: there is no region `east`; the cloud has north, south");
    }
}
