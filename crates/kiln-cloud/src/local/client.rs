//! Talking to the daemon: finding it, sending, trying again.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::wire::Fault;
use super::{SOCKET, launch};
use crate::rate::RateLimit;
use crate::retry::{Policy, retry};
use crate::{Error, Result};
use kiln_wire::SecretText;

/// Longer than the longest operation that is answered at its end, an orderly stop.
const TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub struct Endpoint {
    pub url: String,
    /// The host's socket needs none.
    pub token: Option<SecretText>,
}

impl Endpoint {
    /// Whatever the name, the connection is to the socket.
    pub fn socket() -> Self {
        Endpoint { url: "http://localhost".into(), token: None }
    }

    pub fn request(&self, http: &reqwest::Client, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = http.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }
}

#[derive(Debug)]
pub struct Client {
    /// `None`: the daemon is elsewhere and not ours to start.
    pub root: Option<PathBuf>,
    /// The `kiln` program: starts the daemon, goes into source images.
    pub program: PathBuf,
    pub http: reqwest::Client,
    endpoint: Mutex<Option<Endpoint>>,
    rate: RateLimit,
}

impl Client {
    pub fn new(root: Option<PathBuf>, endpoint: Option<Endpoint>, program: PathBuf) -> Self {
        let http = match &root {
            Some(root) => crate::http::socket(TIMEOUT, root.join(SOCKET)),
            None => crate::http::plain(TIMEOUT),
        };
        Client { root, program, http, endpoint: Mutex::new(endpoint), rate: RateLimit::new(50, 50.0) }
    }

    async fn endpoint(&self) -> Result<Endpoint> {
        let mut cached = self.endpoint.lock().await;
        if let Some(endpoint) = &*cached {
            return Ok(endpoint.clone());
        }
        let Some(root) = &self.root else {
            return Err(Error::failed("no address"));
        };
        let endpoint = launch::ensure(root, &self.program, &self.http).await?;
        *cached = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// The daemon may have ended since the last call; the next one looks again.
    pub async fn forget_endpoint(&self) {
        if self.root.is_some() {
            *self.endpoint.lock().await = None;
        }
    }

    async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&[u8]>) -> Result<T> {
        self.rate.acquire().await;
        let endpoint = self.endpoint().await?;
        let mut request = endpoint.request(&self.http, method, path);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_vec());
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                self.forget_endpoint().await;
                let from = if endpoint.token.is_some() { &endpoint.url } else { "the local cloud's daemon" };
                return Err(unanswered(error).saying(format!("no answer from {from}")));
            }
        };
        let status = response.status();
        let text = response.bytes().await.map_err(unanswered)?;
        if status.is_success() {
            return serde_json::from_slice(&text)
                .map_err(|e| Error::failed(format!("unexpected answer to {path}")).because(e));
        }
        match serde_json::from_slice::<Fault>(&text) {
            Ok(fault) => Err(fault.into()),
            Err(_) if status.is_server_error() => Err(Error::unanswered(status.to_string())),
            Err(_) => Err(Error::refused(format!("{status}: {}", String::from_utf8_lossy(&text)))),
        }
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        retry(&Policy::LOCAL, |_| self.send(Method::GET, path, None)).await
    }

    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        self.call_counting(method, path, body).await.0
    }

    /// Removing what is gone is done already.
    pub async fn remove(&self, path: &str) -> Result<()> {
        match retry(&Policy::LOCAL, |_| self.send(Method::DELETE, path, None)).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Like [`Client::call`]; also says how many attempts failed before the last.
    pub async fn call_counting<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> (Result<T>, u32) {
        let body = match encode(body) {
            Ok(body) => body,
            Err(error) => return (Err(error), 0),
        };
        let mut failed = 0;
        let answer = retry(&Policy::LOCAL, |attempt| {
            failed = attempt;
            self.send(method.clone(), path, Some(&body))
        })
        .await;
        (answer, failed)
    }
}

fn encode(body: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(|e| Error::refused("the request cannot be written").because(e))
}

fn unanswered(error: reqwest::Error) -> Error {
    Error::unanswered("no answer").because(crate::http::Cause(error))
}
