//! One call: signature, address, faults, retries, pages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;

use super::fault::{fault, header, no_answer};
use super::login::{Identity, Login};
use super::principal::{self, Token};
use super::region::Service;
use super::sign::{Content, Signed, Signer, http_date};
use crate::http::{self, Trust};
use crate::rate::RateLimit;
use crate::remote::encode;
use crate::retry::{Policy, retry};
use crate::{Error, Result};

pub const TIMEOUT: Duration = Duration::from_secs(60);
/// For a part of an image.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(1800);

pub struct Client {
    pub login: Login,
    http: reqwest::Client,
    rate: RateLimit,
    /// Of an instance.
    token: Mutex<Option<Arc<Token>>>,
}

/// An answer with what its headers say.
#[derive(Debug, Default)]
pub struct Answer {
    pub body: Vec<u8>,
    pub etag: Option<String>,
    pub next_page: Option<String>,
    pub work_request: Option<String>,
}

impl Answer {
    pub fn read<T: DeserializeOwned>(&self, what: &str) -> Result<T> {
        serde_json::from_slice(&self.body)
            .map_err(|e| Error::failed(format!("the cloud's answer about {what} cannot be read")).because(e))
    }
}

/// One call, as it will be made.
#[derive(Clone)]
pub struct Call<'a> {
    service: Service,
    method: Method,
    /// With its query, after the service's base.
    path: String,
    body: Option<Body<'a>>,
    headers: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy)]
enum Body<'a> {
    Json(&'a Value),
    /// For object storage, which does not want it signed.
    Bytes(&'a [u8]),
    /// An action that has none; the signature covers that.
    Empty,
}

impl<'a> Call<'a> {
    fn new(service: Service, method: Method, path: impl Into<String>) -> Call<'a> {
        Call { service, method, path: path.into(), body: None, headers: Vec::new() }
    }

    pub fn get(service: Service, path: impl Into<String>) -> Call<'a> {
        Call::new(service, Method::GET, path)
    }

    pub fn delete(service: Service, path: impl Into<String>) -> Call<'a> {
        Call::new(service, Method::DELETE, path)
    }

    pub fn post(service: Service, path: impl Into<String>, body: &'a Value) -> Call<'a> {
        Call { body: Some(Body::Json(body)), ..Call::new(service, Method::POST, path) }
    }

    /// An action without a body.
    pub fn act(service: Service, path: impl Into<String>) -> Call<'a> {
        Call { body: Some(Body::Empty), ..Call::new(service, Method::POST, path) }
    }

    pub fn put(service: Service, path: impl Into<String>, body: &'a Value) -> Call<'a> {
        Call { body: Some(Body::Json(body)), ..Call::new(service, Method::PUT, path) }
    }

    pub fn put_bytes(service: Service, path: impl Into<String>, body: &'a [u8]) -> Call<'a> {
        Call { body: Some(Body::Bytes(body)), ..Call::new(service, Method::PUT, path) }
    }

    /// Sent with every attempt, so that the cloud knows a second one as such. Random: one made from a name would be refused
    /// once what it made is gone.
    #[must_use]
    pub fn once_only(self) -> Call<'a> {
        self.with_token(&retry_token())
    }

    #[must_use]
    pub fn with_token(self, token: &str) -> Call<'a> {
        self.with("opc-retry-token", token)
    }

    /// Only if nobody has changed it since.
    #[must_use]
    pub fn if_match(self, etag: Option<&str>) -> Call<'a> {
        match etag {
            Some(etag) => self.with("if-match", etag),
            None => self,
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Call<'a> {
        self.headers.push((name, value.to_string()));
        self
    }
}

/// A page of a listing: most services give a bare list.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Page {
    List(Vec<Value>),
    Collection { items: Vec<Value> },
}

impl Page {
    fn items(self) -> Vec<Value> {
        match self {
            Page::List(items) | Page::Collection { items } => items,
        }
    }
}

pub fn retry_token() -> String {
    format!("kiln-{:032x}", rand::random::<u128>())
}

impl Client {
    pub fn new(login: Login) -> Result<Client> {
        let trust = login.ca_bundle.as_deref().map_or(Trust::System, Trust::Bundle);
        let http = http::secure(TIMEOUT, trust)?;
        Ok(Client { login, http, rate: RateLimit::new(40, 20.0), token: Mutex::default() })
    }

    async fn signer(&self) -> Result<(Signer, Option<Arc<Token>>)> {
        let metadata = match &self.login.identity {
            Identity::Key(signer) => return Ok((signer.clone(), None)),
            Identity::Instance { metadata } => metadata,
        };
        let mut known = self.token.lock().await;
        let token = if let Some(token) = known.as_ref().filter(|token| token.is_fresh()) {
            Arc::clone(token)
        } else {
            let token = Arc::new(principal::token(&self.http, metadata, &self.login.endpoints).await?);
            *known = Some(Arc::clone(&token));
            token
        };
        Ok((token.signer.clone(), Some(token)))
    }

    /// The next call gets another one.
    async fn refuse(&self, token: &Arc<Token>) {
        let mut known = self.token.lock().await;
        if known.as_ref().is_some_and(|there| Arc::ptr_eq(there, token)) {
            *known = None;
        }
    }

    /// For reading, and for what may be done twice, or has a token of its own.
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer> {
        retry(&Policy::REMOTE, |_| self.send_once(call)).await
    }

    /// A single attempt, for what must not be done twice. A token that has run out is no attempt.
    pub async fn send_once(&self, call: &Call<'_>) -> Result<Answer> {
        let (signer, token) = self.signer().await?;
        match (self.exchange(call, &signer).await?, token) {
            (Ok(answer), _) => Ok(answer),
            // The instance's rights may have changed since, or the token was revoked.
            (Err((StatusCode::UNAUTHORIZED, _)), Some(token)) => {
                self.refuse(&token).await;
                let (signer, _) = self.signer().await?;
                self.exchange(call, &signer).await?.map_err(|(_, error)| error)
            }
            (Err((_, error)), _) => Err(error),
        }
    }

    async fn exchange(
        &self,
        call: &Call<'_>,
        signer: &Signer,
    ) -> Result<std::result::Result<Answer, (StatusCode, Error)>> {
        self.rate.acquire().await;
        let from = call.service.word();
        let text = format!("{}{}{}", self.login.endpoints.url(call.service), call.service.base(), call.path);
        let url = reqwest::Url::parse(&text).map_err(|_| Error::refused(format!("{text} is no address")))?;
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_string(),
        };
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_string(),
        };
        let body = match call.body {
            Some(Body::Json(value)) => Some(value.to_string().into_bytes()),
            Some(Body::Bytes(bytes)) => Some(bytes.to_vec()),
            Some(Body::Empty) => Some(Vec::new()),
            None => None,
        };
        let content = match (&call.body, &body) {
            (Some(Body::Json(_) | Body::Empty), Some(body)) => Content::Json(body),
            _ => Content::Unsigned,
        };
        let date = http_date(Timestamp::now());
        let signed = Signed { method: &call.method, target: &target, host: &host, date: &date, content };
        let headers = signer.headers(&signed).ok_or_else(|| Error::failed("the request cannot be signed"))?;
        let mut request = self.http.request(call.method.clone(), url.clone()).header("date", &date);
        for (name, value) in headers.iter().chain(&call.headers) {
            request = request.header(*name, value);
        }
        if let Some(Body::Bytes(_)) = call.body {
            request = request.header("content-type", "application/octet-stream").timeout(UPLOAD_TIMEOUT);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let started = tokio::time::Instant::now();
        let response = request.send().await.map_err(|e| no_answer(e, from))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await.map_err(|e| no_answer(e, from))?;
        tracing::debug!(method = %call.method, %target, %status, elapsed = ?started.elapsed(), "called");
        if !status.is_success() {
            return Ok(Err((status, fault(status, &headers, &bytes, &call.method, &target))));
        }
        let text = |name: &str| header(&headers, name).map(String::from);
        Ok(Ok(Answer {
            etag: text("etag"),
            next_page: text("opc-next-page"),
            work_request: text("opc-work-request-id"),
            body: bytes.to_vec(),
        }))
    }

    pub async fn get<T: DeserializeOwned>(&self, service: Service, path: &str) -> Result<T> {
        self.send(&Call::get(service, path)).await?.read(path)
    }

    /// Removing what is gone is done already.
    pub async fn delete(&self, service: Service, path: &str) -> Result<()> {
        match self.send(&Call::delete(service, path)).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// All items of a listing. A page may be empty and have another one after it.
    pub async fn list<T: DeserializeOwned>(&self, service: Service, path: &str) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut page = String::new();
        loop {
            let answer = self.send(&Call::get(service, format!("{path}{page}"))).await?;
            for item in answer.read::<Page>(path)?.items() {
                // What changes its place while pages are turned would be seen twice.
                if item["id"].as_str().is_some_and(|id| !seen.insert(id.to_string())) {
                    continue;
                }
                let unreadable =
                    |e| Error::failed(format!("the cloud's answer about {path} cannot be read")).because(e);
                all.push(serde_json::from_value(item).map_err(unreadable)?);
            }
            match answer.next_page {
                Some(next) => page = format!("{separator}page={}", encode(&next)),
                None => return Ok(all),
            }
        }
    }
}
