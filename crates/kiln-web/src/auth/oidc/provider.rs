//! Asking the provider: what it says of itself, the keys it signs with, and a token for a code.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kiln_cloud::http::{self, Cause, Trust};
use kiln_wire::{OidcSettings, SecretText};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::id_token::{self, Expected, Key, Wrong};
use super::{Fault, plain};

/// For each answer: a browser waits.
const PATIENCE: Duration = Duration::from_secs(15);
/// No answer of a provider is longer.
const LONGEST: usize = 1 << 20;
/// What a provider says of itself is asked again after this time.
const FRESH: Duration = Duration::from_secs(3600);

/// What the provider says of itself.
#[derive(Clone)]
pub struct Described {
    pub authorization: Url,
    token: Url,
    keys: Url,
    /// The client's secret goes into the body, because the provider takes it nowhere else.
    secret_in_body: bool,
}

pub struct Provider {
    issuer: String,
    client_id: String,
    client_secret: SecretText,
    client: Client,
    described: Mutex<Option<(Instant, Described)>>,
    keys: Mutex<Vec<Key>>,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Redeemed {
    id_token: String,
}

impl Provider {
    pub fn new(settings: &OidcSettings) -> Result<Provider, String> {
        let url = Url::parse(&settings.issuer).map_err(|_| "the provider's address cannot be understood")?;
        let client = match (url.scheme(), &settings.proxy) {
            // On this host, where nobody is in between.
            ("http", _) if is_here(&url) => Ok(http::plain(PATIENCE)),
            ("https", None) => http::secure(PATIENCE, Trust::System),
            ("https", Some(proxy)) => http::proxied(PATIENCE, &proxy.url, &proxy.except),
            _ => return Err("the provider's address does not begin with https://".into()),
        };
        Ok(Provider {
            issuer: settings.issuer.clone(),
            client_id: settings.client_id.clone(),
            client_secret: settings.client_secret.clone(),
            client: client.map_err(|error| error.to_string())?,
            described: Mutex::default(),
            keys: Mutex::default(),
        })
    }

    /// What was said before is good enough while nothing newer can be had.
    pub async fn described(&self) -> Result<Described, Fault> {
        let known = locked(&self.described).clone();
        if let Some((_, described)) = known.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(described.clone());
        }
        match (self.discover().await, known) {
            (Ok(described), _) => {
                *locked(&self.described) = Some((Instant::now(), described.clone()));
                Ok(described)
            }
            (Err(_), Some((_, described))) => Ok(described),
            (Err(fault), None) => Err(fault),
        }
    }

    async fn discover(&self) -> Result<Described, Fault> {
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let found: Discovery = document(self.client.get(address)).await?;
        if found.issuer != self.issuer {
            let words =
                format!("it calls itself {}, and the cluster file {}", plain(&found.issuer), self.issuer);
            return Err(Fault::Unreachable(words));
        }
        let methods = &found.token_endpoint_auth_methods_supported;
        let takes = |method: &str| methods.iter().any(|supported| supported == method);
        Ok(Described {
            authorization: self.address(&found.authorization_endpoint)?,
            token: self.address(&found.token_endpoint)?,
            keys: self.address(&found.jwks_uri)?,
            secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
        })
    }

    /// No less safe than the provider's own.
    fn address(&self, text: &str) -> Result<Url, Fault> {
        let url = Url::parse(text).ok();
        let is_safe =
            |url: &Url| url.scheme() == "https" || (self.issuer.starts_with("http://") && is_here(url));
        url.filter(is_safe)
            .ok_or_else(|| Fault::Unreachable("it names an address that is not https://".into()))
    }

    /// The ID token for a code.
    pub async fn redeem(&self, code: &str, redirect: &str, verifier: &str) -> Result<SecretText, Fault> {
        let described = self.described().await?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
            ("client_id", &self.client_id),
        ];
        let mut request = self.client.post(described.token);
        if described.secret_in_body {
            fields.push(("client_secret", self.client_secret.expose_secret()));
        } else {
            let pair =
                format!("{}:{}", encoded(&self.client_id), encoded(self.client_secret.expose_secret()));
            request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)));
        }
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form(&fields));
        let redeemed: Redeemed = answer(request).await?;
        Ok(redeemed.id_token.into())
    }

    /// What an ID token says, if it is to be believed. Keys change: with one that is not known, they are asked for again.
    pub async fn claims(&self, token: &SecretText, nonce: &str) -> Result<Map<String, Value>, Fault> {
        let expected = Expected {
            issuer: &self.issuer,
            client: &self.client_id,
            nonce,
            now: Timestamp::now().as_second(),
        };
        let keys = locked(&self.keys).clone();
        let mut read = id_token::claims(token.expose_secret(), &keys, &expected);
        if matches!(read, Err(Wrong::UnknownKey)) {
            let found: Keys = document(self.client.get(self.described().await?.keys)).await?;
            // Those of kinds that are not known here are passed over.
            let keys: Vec<Key> =
                found.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
            read = id_token::claims(token.expose_secret(), &keys, &expected);
            *locked(&self.keys) = keys;
        }
        read.map_err(|wrong| Fault::Untrusted(wrong.to_string()))
    }
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_here(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

/// As browsers send forms.
fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("https://form").map(|mut url| {
        url.query_pairs_mut().extend_pairs(fields);
        url
    });
    url.as_mut().ok().and_then(|url| url.query().map(String::from)).unwrap_or_default()
}

fn encoded(word: &str) -> String {
    form(&[("", word)]).trim_start_matches('=').to_string()
}

/// What everybody may read. That it is refused says nothing of whoever logs in.
async fn document<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Fault> {
    answer(request).await.map_err(|fault| match fault {
        Fault::Refused(why) => Fault::Unreachable(why),
        other => other,
    })
}

/// No error has what was sent.
async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Fault> {
    let lost = |error: reqwest::Error| Fault::Unreachable(Cause(error.without_url()).to_string());
    let mut answer = request.header(ACCEPT, "application/json").send().await.map_err(lost)?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(lost)? {
        body.extend_from_slice(&part);
        if body.len() > LONGEST {
            return Err(Fault::Unreachable("the answer is too long".into()));
        }
    }
    if status.is_client_error() {
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let error = said["error"].as_str().map(plain);
        return Err(Fault::Refused(error.unwrap_or_else(|| status.to_string())));
    }
    if !status.is_success() {
        return Err(Fault::Unreachable(format!("the answer was {status}")));
    }
    serde_json::from_slice(&body)
        .map_err(|_| Fault::Unreachable("the answer is not what it should be".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sent_as_forms_are() {
        assert_eq!(form(&[("a b", "c&d"), ("e", "ü=")]), "a+b=c%26d&e=%C3%BC%3D");
        assert_eq!(encoded("a:b c"), "a%3Ab+c");
        assert_eq!(encoded("=x"), "%3Dx");
    }
}
