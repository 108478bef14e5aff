//! kilnd's API, as far as it is needed here.

use std::time::Duration;

use kiln_cloud::http::{self, Cause, Trust};
use kiln_web::Order;
use kiln_web::auth::SESSION_LIFE;
use kiln_web::view::{Failure, Login, NodeDetail, RolloutDetail, Session};
use reqwest::header::{COOKIE, HeaderMap, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::sse::{self, Message};

/// For one answer: kilnd may have to ask Slurm and the cloud first.
const PATIENCE: Duration = Duration::from_secs(40);
/// There is a sign of life every ten seconds.
const SILENCE: Duration = Duration::from_secs(35);

#[derive(Clone)]
pub struct Api {
    client: Client,
    /// Without a slash at its end.
    address: String,
    access: Access,
}

/// What lets us in. Not shown anywhere.
#[derive(Clone)]
enum Access {
    Nothing,
    Token(String),
    Session { cookie: String, csrf: String },
}

impl Api {
    /// With the word of a one-time login, which begins a session.
    pub async fn log_in(address: &str, word: &str) -> Result<(Api, Session), Error> {
        let mut api = Api::new(address)?;
        let login = Login { token: word.into() };
        let answer = api.request(Method::POST, "login").json(&login).send().await;
        let answer = accepted(answer).await?;
        let cookie = session_cookie(answer.headers());
        let session: Session = read(answer).await?;
        let (Some(cookie), Some(csrf)) = (cookie, session.csrf.clone()) else {
            return Err(Error::NoAnswer("a login without a session".into()));
        };
        api.access = Access::Session { cookie, csrf };
        Ok((api, session))
    }

    /// With a token, which needs no session.
    pub async fn with_token(address: &str, token: &str) -> Result<(Api, Session), Error> {
        let mut api = Api::new(address)?;
        api.access = Access::Token(token.trim().into());
        let session = api.get("session").await?;
        Ok((api, session))
    }

    fn new(address: &str) -> Result<Api, Error> {
        let address = address.trim_end_matches('/').to_string();
        let client = if is_on_this_host(&address) {
            http::plain(PATIENCE)
        } else if address.starts_with("https://") {
            http::secure(PATIENCE, Trust::System).map_err(|error| Error::NoAnswer(error.to_string()))?
        } else {
            return Err(Error::Address { address });
        };
        Ok(Api { client, address, access: Access::Nothing })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let is_change = method != Method::GET;
        let request = self.client.request(method, format!("{}/api/v1/{path}", self.address));
        match &self.access {
            Access::Nothing => request,
            Access::Token(token) => request.bearer_auth(token),
            Access::Session { cookie, csrf } if is_change => {
                request.header(COOKIE, cookie).header("X-Kiln-Csrf", csrf)
            }
            Access::Session { cookie, .. } => request.header(COOKIE, cookie),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        read(accepted(self.request(Method::GET, path).send().await).await?).await
    }

    pub async fn node(&self, name: &str) -> Result<NodeDetail, Error> {
        self.get(&format!("nodes/{name}")).await
    }

    pub async fn steer(&self, rollout: i64, order: Order) -> Result<RolloutDetail, Error> {
        let path = format!("rollouts/{rollout}/{}", order.word());
        read(accepted(self.request(Method::POST, &path).send().await).await?).await
    }

    /// A session that was begun here has no use for anybody afterwards. A token stays good.
    pub async fn log_out(&self) {
        if matches!(self.access, Access::Session { .. }) {
            let _ = self.request(Method::POST, "logout").timeout(Duration::from_secs(3)).send().await;
        }
    }

    pub async fn stream(&self) -> Result<Stream, Error> {
        let request = self.request(Method::GET, "stream").timeout(SESSION_LIFE);
        Ok(Stream { answer: accepted(request.send().await).await?, reader: sse::Reader::default() })
    }
}

/// Server-sent events as they come.
pub struct Stream {
    answer: Response,
    reader: sse::Reader,
}

impl Stream {
    /// `Err`: there will be no more.
    pub async fn next(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.reader.message() {
                return Ok(message);
            }
            let lost = |words: &str| Error::NoAnswer(words.into());
            match tokio::time::timeout(SILENCE, self.answer.chunk()).await {
                Ok(Ok(Some(bytes))) => self.reader.add(&bytes),
                Ok(Ok(None)) => return Err(lost("it has closed the connection")),
                Ok(Err(error)) => return Err(lost(&Cause(error).to_string())),
                Err(_) => return Err(lost("nothing was heard of it for a while")),
            }
        }
    }
}

async fn accepted(answer: reqwest::Result<Response>) -> Result<Response, Error> {
    let answer = answer.map_err(|error| Error::NoAnswer(Cause(error).to_string()))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let words = match answer.json::<Failure>().await {
        Ok(failure) => failure.error,
        Err(_) => format!("the answer was {status}"),
    };
    Err(if status == StatusCode::UNAUTHORIZED { Error::Over(words) } else { Error::Refused(words) })
}

async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, Error> {
    // Another release of kilnd may speak otherwise.
    let other = "what it says is not known here: its Kiln is of another release";
    answer.json().await.map_err(|_| Error::NoAnswer(other.into()))
}

fn session_cookie(headers: &HeaderMap) -> Option<String> {
    let cookie = headers.get(SET_COOKIE)?.to_str().ok()?;
    Some(cookie.split(';').next()?.to_string())
}

/// What is sent there passes no network.
fn is_on_this_host(address: &str) -> bool {
    let Some(host) = address.strip_prefix("http://") else { return false };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_this_host_or_through_tls() {
        for address in ["http://127.0.0.1:6830", "http://localhost:1", "https://control.example.org:6830/"] {
            assert!(Api::new(address).is_ok(), "{address}");
        }
        for address in ["http://10.0.0.1:6830", "http://127.0.0.1.example.org", "control:6830", ""] {
            assert!(matches!(Api::new(address), Err(Error::Address { .. })), "{address}");
        }
    }
}
