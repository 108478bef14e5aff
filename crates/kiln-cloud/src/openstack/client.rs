//! One call: token, address, versions, faults, retries, pages.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::sync::OnceCell;

use super::fault::{fault, no_answer, no_rights};
use super::session::{Service, Session};
use crate::rate::RateLimit;
use crate::remote::encode;
use crate::retry::{Policy, retry};
use crate::{Class, Error, Result};

/// Some answers take long on a busy cloud; one that takes longer has got lost.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// For what a person waits for and can do without.
const SHORT_TIMEOUT: Duration = Duration::from_secs(15);
/// For an image of some gigabytes.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(3600);
/// Of Nova. The lowest with what Kiln needs: tags at creation, user data in a rebuild, types of root volumes (Stein,
/// 2019). The highest known to mean the same: with it a server on a volume can be rebuilt (Zed, 2022).
const COMPUTE: (u32, u32) = (67, 93);
/// Of Cinder: volume types' default, and a rebuild of a root volume.
const VOLUME: &str = "volume 3.59";

pub struct Client {
    pub session: Session,
    http: reqwest::Client,
    rate: RateLimit,
    compute_version: OnceCell<String>,
    /// How many to ask for at a time in a listing.
    pub page: usize,
}

/// No content is an answer, too.
pub type Body = Option<Value>;

enum Sent {
    Answered(Body),
    /// The service does not take this token, or not for this.
    BadToken,
}

impl Client {
    pub fn new(session: Session, http: reqwest::Client) -> Client {
        Client {
            session,
            http,
            rate: RateLimit::new(100, 100.0),
            compute_version: OnceCell::new(),
            page: 500,
        }
    }

    pub fn request<'a>(
        &'a self,
        service: Service,
        method: Method,
        path: &'a str,
        body: Option<&'a Value>,
    ) -> Request<'a> {
        Request { client: self, service, method, path, body }
    }

    pub async fn get<T: DeserializeOwned>(&self, service: Service, path: &str, key: &str) -> Result<T> {
        let answer = self.request(service, Method::GET, path, None).retried().await?;
        take(answer, key, path)
    }

    /// Removing what is gone is done already.
    pub async fn delete(&self, service: Service, path: &str) -> Result<()> {
        match self.request(service, Method::DELETE, path, None).retried().await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The content of a file, as it is.
    pub async fn send_file(&self, service: Service, path: &str, file: &Path) -> Result<()> {
        let token = self.session.token().await?;
        let url = format!("{}{path}", self.session.endpoint(&token, service)?);
        let failed =
            |e: std::io::Error| Error::refused(format!("{} cannot be read", file.display())).because(e);
        let content = tokio::fs::File::open(file).await.map_err(failed)?;
        let request =
            self.http.put(&url).header("x-auth-token", token.value.expose_secret()).timeout(TRANSFER_TIMEOUT);
        let request = request.header("content-type", "application/octet-stream").body(content);
        match self.exchange(service, request).await? {
            Sent::Answered(_) => Ok(()),
            Sent::BadToken => Err(self.refused(path)),
        }
    }

    /// The content of an answer, as it is, in place of what the file has. How many bytes came.
    pub async fn receive_file(&self, service: Service, path: &str, to: &std::fs::File) -> Result<u64> {
        let token = self.session.token().await?;
        let url = format!("{}{path}", self.session.endpoint(&token, service)?);
        let name = service.types()[0];
        self.rate.acquire().await;
        let request = self.http.get(&url).header("x-auth-token", token.value.expose_secret());
        let answer = request.timeout(TRANSFER_TIMEOUT).send().await.map_err(|e| no_answer(e, name))?;
        let status = answer.status();
        if status == StatusCode::UNAUTHORIZED {
            return Err(self.refused(path));
        }
        if !status.is_success() {
            let headers = answer.headers().clone();
            let bytes = answer.bytes().await.map_err(|e| no_answer(e, name))?;
            return Err(named(fault(status, &headers, &bytes, &Method::GET, path), name));
        }
        write_down(answer, to, name).await
    }

    async fn exchange(&self, service: Service, request: reqwest::RequestBuilder) -> Result<Sent> {
        self.rate.acquire().await;
        let (http, request) = request.build_split();
        let name = service.types()[0];
        let request = request.map_err(|e| no_answer(e, name))?;
        let (method, url) = (request.method().clone(), request.url().clone());
        let started = tokio::time::Instant::now();
        let response = http.execute(request).await.map_err(|e| no_answer(e, name))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await.map_err(|e| no_answer(e, name))?;
        tracing::debug!(%method, %url, %status, elapsed = ?started.elapsed(), "called");
        if status == StatusCode::UNAUTHORIZED {
            return Ok(Sent::BadToken);
        }
        if !status.is_success() {
            return Err(named(fault(status, &headers, &bytes, &method, url.path()), name));
        }
        // Some services answer with text where nothing is to be said.
        Ok(Sent::Answered(serde_json::from_slice(&bytes).ok()))
    }

    /// When the certificate of a server ends, if it shows one.
    pub async fn certificate_end(&self, url: &str) -> Option<Timestamp> {
        let response = self.http.get(url).timeout(SHORT_TIMEOUT).send().await.ok()?;
        let shown = response.extensions().get::<reqwest::tls::TlsInfo>()?;
        kiln_wire::certificate::not_after(shown.peer_certificate()?)
    }

    /// Also what an application credential meets that is not allowed the call.
    fn refused(&self, path: &str) -> Error {
        let path = path.split('?').next().unwrap_or(path);
        no_rights(format!("{path} is not allowed ({})", self.session.login.whose()))
    }

    /// All items of a listing. Pages are asked for by the last id, not by the links that come with them: those lead
    /// past proxies.
    pub async fn list<T: DeserializeOwned>(&self, service: Service, path: &str, key: &str) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        let mut marker = String::new();
        let separator = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = format!("{path}{separator}limit={}{marker}", self.page);
            let answer = self.request(service, Method::GET, &page, None).retried().await?;
            let Some(mut answer) = answer else { return Ok(all) };
            let Value::Array(items) = answer[key].take() else { return Err(unexpected(path)) };
            let more = answer.get("next").is_some_and(|next| !next.is_null())
                || answer[format!("{key}_links")]
                    .as_array()
                    .is_some_and(|links| links.iter().any(|link| link["rel"] == "next"));
            let last = items.last().and_then(|item| item["id"].as_str()).map(encode);
            for item in items {
                // What changes its place while pages are turned would be seen twice.
                if item["id"].as_str().is_some_and(|id| !seen.insert(id.to_string())) {
                    continue;
                }
                all.push(serde_json::from_value(item).map_err(|_| unexpected(path))?);
            }
            match last {
                Some(last) if more => marker = format!("&marker={last}"),
                _ => return Ok(all),
            }
        }
    }

    /// What is this project's of them. An administrator of the cloud is shown those of every project, and another project may have
    /// a cluster of the same name.
    pub async fn list_own<T: DeserializeOwned>(
        &self,
        service: Service,
        path: &str,
        key: &str,
    ) -> Result<Vec<T>> {
        let project = self.project().await?;
        let filter = if service == Service::Image { "owner" } else { "project_id" };
        let separator = if path.contains('?') { '&' } else { '?' };
        self.list(service, &format!("{path}{separator}{filter}={}", encode(&project)), key).await
    }

    /// The id of the project in which all is done.
    pub async fn project(&self) -> Result<String> {
        let token = self.session.token().await?;
        let origin = &self.session.login.origin;
        token.project.as_ref().map(|project| project.id.clone()).ok_or_else(|| {
            Error::unsupported(format!("{origin}: the cloud's answer to the login names no project"))
        })
    }

    /// Whether listings have what belongs to others.
    pub async fn is_admin(&self) -> Result<bool> {
        Ok(self.session.token().await?.roles.iter().any(|role| role.name.eq_ignore_ascii_case("admin")))
    }

    async fn version(&self, service: Service) -> Result<Option<String>> {
        match service {
            Service::Compute => {
                let version = self.compute_version.get_or_try_init(|| self.find_compute_version()).await?;
                Ok(Some(version.clone()))
            }
            Service::Volume => Ok(Some(VOLUME.to_string())),
            Service::Image | Service::Network | Service::Identity => Ok(None),
        }
    }

    async fn find_compute_version(&self) -> Result<String> {
        let root = self.request(Service::Compute, Method::GET, "/", None);
        let found = retry(&Policy::REMOTE, |_| root.with_version(None)).await?;
        let text = found.as_ref().and_then(|v| v["version"]["version"].as_str()).unwrap_or_default();
        let minor: u32 = text.strip_prefix("2.").and_then(|minor| minor.parse().ok()).unwrap_or(0);
        if minor < COMPUTE.0 {
            return Err(Error::unsupported(format!(
                "the cloud's Nova speaks API 2.{minor} at most; Kiln needs 2.{} (release Stein) or newer",
                COMPUTE.0
            )));
        }
        Ok(format!("compute 2.{}", minor.min(COMPUTE.1)))
    }
}

/// One call, as it will be made.
pub struct Request<'a> {
    client: &'a Client,
    service: Service,
    method: Method,
    path: &'a str,
    body: Option<&'a Value>,
}

impl Request<'_> {
    /// For reading, and for what may be done twice.
    pub async fn retried(&self) -> Result<Body> {
        retry(&Policy::REMOTE, |_| self.once()).await
    }

    /// A single attempt, for what must not be done twice. A token that has run out is no attempt.
    pub async fn once(&self) -> Result<Body> {
        let version = self.client.version(self.service).await?;
        self.with_version(version.as_deref()).await
    }

    async fn with_version(&self, version: Option<&str>) -> Result<Body> {
        for last in [false, true] {
            let session = &self.client.session;
            let token = session.token().await?;
            let url = format!("{}{}", session.endpoint(&token, self.service)?, self.path);
            let request = self.build(&url, token.value.expose_secret(), version);
            match self.client.exchange(self.service, request).await? {
                Sent::Answered(body) => return Ok(body),
                // It may have been revoked, or the clocks differ. A second one that is refused is final.
                Sent::BadToken if last => break,
                Sent::BadToken => session.refuse(&token).await,
            }
        }
        Err(self.client.refused(self.path))
    }

    fn build(&self, url: &str, token: &str, version: Option<&str>) -> reqwest::RequestBuilder {
        let mut request = self.client.http.request(self.method.clone(), url).header("x-auth-token", token);
        if let Some(version) = version {
            request = request.header("openstack-api-version", version);
        }
        // Glance changes images in a language of its own.
        let patch = "application/openstack-images-v2.1-json-patch";
        match self.body {
            Some(body) if self.method == Method::PATCH => {
                request.header("content-type", patch).body(body.to_string())
            }
            Some(body) => request.json(body),
            None => request,
        }
    }
}

async fn write_down(mut answer: reqwest::Response, to: &std::fs::File, name: &str) -> Result<u64> {
    let failed = |error: std::io::Error| {
        Error::failed("what the cloud sends cannot be written")
            .because(error)
            .with_hint("`TMPDIR` names another directory")
    };
    let begun = to.set_len(0).and_then(|()| to.try_clone());
    let mut file = tokio::fs::File::from_std(begun.map_err(failed)?);
    file.rewind().await.map_err(failed)?;
    let mut length = 0;
    while let Some(part) = answer.chunk().await.map_err(|e| no_answer(e, name))? {
        file.write_all(&part).await.map_err(failed)?;
        length += part.len() as u64;
    }
    file.flush().await.map_err(failed)?;
    Ok(length)
}

/// Says whose fault it is, where the fault does not.
fn named(error: Error, service: &str) -> Error {
    if error.class == Class::Unanswered { error.about(service) } else { error }
}

pub fn take<T: DeserializeOwned>(answer: Body, key: &str, path: &str) -> Result<T> {
    let value = answer.map(|mut value| value[key].take()).unwrap_or_default();
    serde_json::from_value(value).map_err(|_| unexpected(path))
}

fn unexpected(path: &str) -> Error {
    Error::failed(format!("the cloud's answer to {path} cannot be read"))
}
