//! The server: its addresses, who asks, and how questions are asked.

use std::error::Error as _;
use std::time::Duration;

use kiln_cloud::http::{self, Trust};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Result};

/// Of one request. Long work is a task that is asked for again and again.
const TIMEOUT: Duration = Duration::from_secs(60);
/// More than any page or answer has that is understood here.
const MOST_BYTES: usize = 64 << 20;

pub struct Server {
    http: reqwest::Client,
    /// `https://pulp.example.org`, without a slash at the end.
    origin: String,
    /// Where packages are, `https://pulp.example.org/pulp/content`, without a slash at the end.
    content: String,
    /// `None`: it can only be read.
    login: Option<Login>,
}

#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Server {
    /// `address` is that of the API. Nothing is asked yet.
    pub fn new(address: &str, content: &str, login: Option<Login>) -> Result<Server> {
        let origin = address.trim_end_matches('/').to_string();
        let unusable =
            |error: kiln_cloud::Error| Error::Unreachable { address: origin.clone(), why: error.message };
        let http = http::secure(TIMEOUT, Trust::System).map_err(unusable)?;
        Ok(Server { http, origin, content: content.trim_end_matches('/').to_string(), login })
    }

    /// Whether syncs can be asked for.
    pub fn can_sync(&self) -> bool {
        self.login.is_some()
    }

    pub(crate) fn content(&self) -> &str {
        &self.content
    }

    /// `path` is below the API's root, or a whole path of an answer. `what` says what it is for: "sync debian".
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T> {
        let request = self.request(Method::GET, path).query(query);
        self.answer(what, request).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, what: &str, path: &str, body: &Value) -> Result<T> {
        self.answer(what, self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(&self, what: &str, path: &str, body: &Value) -> Result<T> {
        self.answer(what, self.request(Method::PATCH, path).json(body)).await
    }

    /// A page of the content, which is read as anybody. `None`: there is none.
    pub(crate) async fn page(&self, url: &str) -> Result<Option<String>> {
        let response = self.http.get(url).send().await.map_err(|e| self.unreachable(e))?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                Ok(Some(String::from_utf8_lossy(&self.body(response).await?).into_owned()))
            }
            status => Err(Error::NotPulp { address: url.to_string(), why: format!("it answers {status}") }),
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = if path.starts_with('/') {
            format!("{}{path}", self.origin)
        } else {
            format!("{}/pulp/api/v3/{path}", self.origin)
        };
        let request = self.http.request(method, url);
        match &self.login {
            Some(login) => request.basic_auth(&login.user, Some(&login.password)),
            None => request,
        }
    }

    async fn answer<T: DeserializeOwned>(&self, what: &str, request: RequestBuilder) -> Result<T> {
        let response = request.send().await.map_err(|e| self.unreachable(e))?;
        let status = response.status();
        let body = self.body(response).await?;
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|e| self.not_pulp(format!("its answer is not understood ({e})")));
        }
        let words = words(&body);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let user = self.login.as_ref().map_or("(none)", |login| &login.user).to_string();
                Err(Error::NoRights { user, words: words.unwrap_or_else(|| status.to_string()) })
            }
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS => {
                Err(Error::Unreachable { address: self.origin.clone(), why: format!("it answers {status}") })
            }
            StatusCode::NOT_FOUND if words.is_none() => {
                Err(self.not_pulp("it knows nothing of Pulp's API (404)".to_string()))
            }
            _ => Err(Error::Refused {
                what: what.to_string(),
                words: words.unwrap_or_else(|| format!("it answers {status}")),
            }),
        }
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|e| self.unreachable(e))? {
            body.extend_from_slice(&part);
            if body.len() > MOST_BYTES {
                return Err(self.not_pulp("its answer has no end".to_string()));
            }
        }
        Ok(body)
    }

    pub(crate) fn not_pulp(&self, why: String) -> Error {
        Error::NotPulp { address: self.origin.clone(), why }
    }

    fn unreachable(&self, error: reqwest::Error) -> Error {
        let error = http::failure(error);
        let why = error.source().map_or_else(|| error.message.clone(), ToString::to_string);
        Error::Unreachable { address: self.origin.clone(), why }
    }
}

/// What Pulp says about a request that it refuses: `{"detail": "..."}` or `{"name": ["...", ...], ...}`.
fn words(body: &[u8]) -> Option<String> {
    let body: serde_json::Map<String, Value> = serde_json::from_slice(body).ok()?;
    if let Some(detail) = body.get("detail").and_then(Value::as_str) {
        return Some(detail.to_string());
    }
    let texts = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let fields: Vec<String> =
        body.iter().map(|(field, value)| format!("{field}: {}", texts(value))).collect();
    (!fields.is_empty()).then(|| fields.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_pulps_words() {
        assert_eq!(
            words(br#"{"detail":"Invalid username/password."}"#).unwrap(),
            "Invalid username/password."
        );
        let field = br#"{"name":["This field must be unique."],"url":["a","b"]}"#;
        assert_eq!(words(field).unwrap(), "name: This field must be unique.; url: a b");
        assert_eq!(words(b"<html>"), None);
        assert_eq!(words(b"{}"), None);
    }
}
