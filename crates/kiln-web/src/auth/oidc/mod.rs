//! Logins of the site: OpenID Connect's authorization code flow, with PKCE, state and nonce. The provider is asked when somebody logs in
//! and at no other time, so that sessions go on while it is down.

mod id_token;
mod person;
mod provider;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kiln_wire::{OidcSettings, SecretText};
use reqwest::Url;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::mint;
pub use person::Person;
use provider::Provider;

/// Where browsers begin, and where the provider sends them back to.
pub const BEGIN: &str = "/login/oidc";
pub const BACK: &str = "/login/oidc/back";

/// How long somebody may take at the provider.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How many may be there at once; then the oldest are forgotten.
const MOST: usize = 1000;

/// Why somebody was not let in. What is behind it is for the log; the page has a sentence for each word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No usable answer from the provider.
    Unreachable(String),
    /// It was not begun here, or too long ago, or is over already.
    Unknown,
    /// The provider says no.
    Refused(String),
    /// What the provider said cannot be believed.
    Untrusted(String),
    /// Somebody without a role here.
    NoRole(String),
    /// Somebody without a name that can stand in events.
    NoName(String),
}

impl Fault {
    /// As the login page knows it.
    pub fn word(&self) -> &'static str {
        match self {
            Fault::Unreachable(_) => "provider",
            Fault::Unknown => "unknown",
            Fault::Refused(_) => "refused",
            Fault::Untrusted(_) => "untrusted",
            Fault::NoRole(_) => "role",
            Fault::NoName(_) => "name",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreachable(why) => write!(f, "the provider gave no usable answer: {why}"),
            Fault::Unknown => write!(f, "this login was not started here, has expired, or was used already"),
            Fault::Refused(why) => write!(f, "the provider refuses: {why}"),
            Fault::Untrusted(why) => write!(f, "the provider's answer failed a check: {why}"),
            Fault::NoRole(name) => write!(f, "{name} has no role here"),
            Fault::NoName(why) => write!(f, "the provider gives no valid user name: {why}"),
        }
    }
}

/// A login that somebody has begun.
struct Begun {
    at: Instant,
    nonce: SecretText,
    verifier: SecretText,
}

pub struct Oidc {
    settings: OidcSettings,
    /// As the provider knows it.
    redirect: String,
    provider: Provider,
    /// By their state.
    begun: Mutex<HashMap<String, Begun>>,
}

impl Oidc {
    pub fn new(settings: &OidcSettings, address: &str) -> Result<Oidc, String> {
        Ok(Oidc {
            settings: settings.clone(),
            redirect: format!("{address}{BACK}"),
            provider: Provider::new(settings)?,
            begun: Mutex::default(),
        })
    }

    /// Whom the login page names: the provider's host.
    pub fn host(&self) -> String {
        let url = Url::parse(&self.settings.issuer).ok();
        url.and_then(|url| url.host_str().map(String::from)).unwrap_or_else(|| self.settings.issuer.clone())
    }

    /// Where to send a browser, and the state that it has to come back with.
    pub async fn begin(&self) -> Result<(String, SecretText), Fault> {
        let described = self.provider.described().await?;
        let (state, nonce, verifier) = (mint(), mint(), mint());
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose_secret()));
        let scopes: Vec<&str> =
            std::iter::once("openid").chain(self.settings.scopes.iter().map(String::as_str)).collect();
        let mut url = described.authorization.clone();
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", &self.redirect),
            ("scope", &scopes.join(" ")),
            ("state", state.expose_secret()),
            ("nonce", nonce.expose_secret()),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        self.remember(state.expose_secret(), Begun { at: Instant::now(), nonce, verifier });
        Ok((url.into(), state))
    }

    fn remember(&self, state: &str, begun: Begun) {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, begun| begun.at.elapsed() < PATIENCE);
        if all.len() >= MOST
            && let Some(oldest) = all.iter().min_by_key(|(_, begun)| begun.at).map(|(state, _)| state.clone())
        {
            all.remove(&oldest);
        }
        all.insert(state.into(), begun);
    }

    /// Each is good once.
    fn recall(&self, state: &str) -> Option<Begun> {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(state).filter(|begun| begun.at.elapsed() < PATIENCE)
    }

    /// Who has come back. `state` is what the browser brought in its address, and `kept` in its cookie.
    pub async fn finish(&self, back: &Back, kept: Option<&str>) -> Result<Person, Fault> {
        let state = back.state.as_deref().ok_or(Fault::Unknown)?;
        // Another's login must not be finished in this browser, nor its login in another's.
        if kept != Some(state) {
            return Err(Fault::Unknown);
        }
        let begun = self.recall(state).ok_or(Fault::Unknown)?;
        if back.iss.as_ref().is_some_and(|iss| *iss != self.settings.issuer) {
            return Err(Fault::Untrusted("the answer is another provider's".into()));
        }
        if let Some(error) = &back.error {
            return Err(Fault::Refused(plain(error)));
        }
        let code = back.code.as_deref().ok_or_else(|| Fault::Refused("there is no code".into()))?;
        let token = self.provider.redeem(code, &self.redirect, begun.verifier.expose_secret()).await?;
        let claims = self.provider.claims(&token, begun.nonce.expose_secret()).await?;
        person::of(&self.settings, &claims)
    }
}

/// What the provider sends a browser back with.
#[derive(Debug, Default, serde::Deserialize)]
pub struct Back {
    pub state: Option<String>,
    pub code: Option<String>,
    pub error: Option<String>,
    pub iss: Option<String>,
}

/// What others wrote, for the log.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
