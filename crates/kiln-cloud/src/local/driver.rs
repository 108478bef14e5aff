//! The client of the local cloud's API.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::wire::{Fault, GrantRequest, Outcome, PowerRequest, Retired, SourceRequest, SourceStatus};
use super::{executable, launch, names};
use crate::rate::RateLimit;
use crate::retry::{Policy, retry};
use crate::{
    Error, Flavor, Image, Instance, Labels, Network, NewImage, NewInstance, NewNetwork, NewSecurityGroup,
    NewVolume, Rebuild, Result, SecurityGroup, Volume, label,
};

const PAGE: usize = 200;
/// Longer than the longest operation that is answered at its end, an orderly stop.
const TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub struct Endpoint {
    pub url: String,
    pub token: String,
}

#[derive(Debug, Clone)]
pub struct Driver {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `None`: the daemon is elsewhere and not ours to start.
    root: Option<PathBuf>,
    endpoint: Mutex<Option<Endpoint>>,
    http: reqwest::Client,
    rate: RateLimit,
    /// The `kiln` program: starts the daemon, goes into source images.
    program: PathBuf,
}

impl Driver {
    /// The cloud under a directory of this host. Its daemon is started by the first call that needs it.
    pub fn at_root(root: PathBuf) -> Self {
        Self::new(Some(root), None, executable())
    }

    /// The same, with a program other than this process's own.
    pub fn at_root_with(root: PathBuf, program: PathBuf) -> Self {
        Self::new(Some(root), None, program)
    }

    /// The cloud behind an address, for instances of it.
    pub fn at_url(url: &str, token: &str) -> Self {
        let endpoint = Endpoint { url: url.trim_end_matches('/').to_string(), token: token.to_string() };
        Self::new(None, Some(endpoint), executable())
    }

    fn new(root: Option<PathBuf>, endpoint: Option<Endpoint>, program: PathBuf) -> Self {
        // Without TLS and proxies the builder has nothing that can fail.
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap_or_default();
        let inner =
            Inner { root, endpoint: Mutex::new(endpoint), http, rate: RateLimit::new(50, 50.0), program };
        Driver { inner: Arc::new(inner) }
    }

    async fn endpoint(&self) -> Result<Endpoint> {
        let mut cached = self.inner.endpoint.lock().await;
        if let Some(endpoint) = &*cached {
            return Ok(endpoint.clone());
        }
        let Some(root) = &self.inner.root else {
            return Err(Error::Failed("no address".into()));
        };
        let endpoint = launch::ensure(root, &self.inner.program, &self.inner.http).await?;
        *cached = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// The daemon may have ended since the last call; the next one looks again.
    async fn forget_endpoint(&self) {
        if self.inner.root.is_some() {
            *self.inner.endpoint.lock().await = None;
        }
    }

    async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&[u8]>) -> Result<T> {
        self.inner.rate.acquire().await;
        let endpoint = self.endpoint().await?;
        let mut request =
            self.inner.http.request(method, format!("{}{path}", endpoint.url)).bearer_auth(&endpoint.token);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_vec());
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                self.forget_endpoint().await;
                return Err(transient(&error));
            }
        };
        let status = response.status();
        let text = response.bytes().await.map_err(|e| transient(&e))?;
        if status.is_success() {
            return serde_json::from_slice(&text)
                .map_err(|e| Error::Failed(format!("unexpected answer to {path}: {e}")));
        }
        match serde_json::from_slice::<Fault>(&text) {
            Ok(fault) => Err(fault.into()),
            Err(_) if status.is_server_error() => Err(Error::Transient(status.to_string())),
            Err(_) => Err(Error::Invalid(format!("{status}: {}", String::from_utf8_lossy(&text)))),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        retry(&Policy::LOCAL, |_| self.send(Method::GET, path, None)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        let body = encode(body)?;
        retry(&Policy::LOCAL, |_| self.send(method.clone(), path, Some(&body))).await
    }

    /// Removing what is gone is done already.
    async fn remove(&self, path: &str) -> Result<()> {
        match retry(&Policy::LOCAL, |_| self.send(Method::DELETE, path, None)).await {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    pub async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        names::check_name(cluster)?;
        let mut all: Vec<Instance> = Vec::new();
        loop {
            let marker = all.last().map_or("", |i| i.id.as_str());
            let path = format!("/v1/instances?cluster={cluster}&limit={PAGE}&marker={marker}");
            let page: Vec<Instance> = self.get(&path).await?;
            let full = page.len() == PAGE;
            all.extend(page);
            if !full {
                return Ok(all);
            }
        }
    }

    pub async fn instance(&self, id: &str) -> Result<Instance> {
        self.get(&item("instances", "instance", id)?).await
    }

    pub async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        match self.try_create(&new).await {
            Ok(outcomes) => outcomes,
            Err(error) => new.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn try_create(&self, new: &[NewInstance]) -> Result<Vec<Result<Instance>>> {
        let body = encode(new)?;
        let begun = jiff::Timestamp::now();
        let mut attempts = 0;
        let outcomes: Vec<Outcome<Instance>> = retry(&Policy::LOCAL, |n| {
            attempts = n;
            self.send(Method::POST, "/v1/instances", Some(&body))
        })
        .await?;
        let mut results: Vec<Result<Instance>> = outcomes.into_iter().map(Into::into).collect();
        if attempts > 0 {
            for (result, new) in results.iter_mut().zip(new) {
                if matches!(result, Err(Error::Conflict(_)))
                    && let Some(own) = self.made_since(new, begun).await?
                {
                    *result = Ok(own);
                }
            }
        }
        Ok(results)
    }

    /// An instance made by an earlier attempt of the same call, whose answer was lost.
    async fn made_since(&self, new: &NewInstance, begun: jiff::Timestamp) -> Result<Option<Instance>> {
        let Some(cluster) = new.labels.get(label::CLUSTER) else {
            return Ok(None);
        };
        let all = self.instances(cluster).await?;
        Ok(all.into_iter().find(|i| i.name == new.name && i.created >= begun))
    }

    pub async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        let path = format!("{}/rebuild", item("instances", "instance", id)?);
        self.call(Method::POST, &path, &new).await
    }

    async fn power(&self, id: &str, verb: &str, hard: bool) -> Result<Instance> {
        let path = format!("{}/{verb}", item("instances", "instance", id)?);
        self.call(Method::POST, &path, &PowerRequest { hard }).await
    }

    pub async fn reboot(&self, id: &str, hard: bool) -> Result<Instance> {
        self.power(id, "reboot", hard).await
    }

    pub async fn stop(&self, id: &str, hard: bool) -> Result<Instance> {
        self.power(id, "stop", hard).await
    }

    pub async fn start(&self, id: &str) -> Result<Instance> {
        self.power(id, "start", false).await
    }

    pub async fn delete(&self, id: &str) -> Result<()> {
        self.remove(&item("instances", "instance", id)?).await
    }

    pub async fn set_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        let path = format!("{}/labels", item("instances", "instance", id)?);
        self.call(Method::PUT, &path, &labels).await
    }

    pub async fn console_log(&self, id: &str, lines: usize) -> Result<String> {
        self.get(&format!("{}/console?lines={lines}", item("instances", "instance", id)?)).await
    }

    pub async fn images(&self) -> Result<Vec<Image>> {
        self.get("/v1/images").await
    }

    pub async fn image(&self, id: &str) -> Result<Image> {
        self.get(&item("images", "image", id)?).await
    }

    pub async fn create_image(&self, instance: &str, new: NewImage) -> Result<Image> {
        let path = format!("{}/image", item("instances", "instance", instance)?);
        self.call(Method::POST, &path, &new).await
    }

    pub async fn delete_image(&self, id: &str) -> Result<()> {
        self.remove(&item("images", "image", id)?).await
    }

    pub async fn source_image(&self, suite: &str, progress: &(dyn Fn(&str) + Sync)) -> Result<Image> {
        let executable = file_of(&self.inner.program)?;
        let request = SourceRequest { suite: suite.to_string(), executable };
        let mut last = String::new();
        loop {
            match self.call(Method::POST, "/v1/source-image", &request).await? {
                SourceStatus::Ready { image } => return Ok(*image),
                SourceStatus::Failed { fault } => return Err(fault.into()),
                SourceStatus::Running { step } => {
                    if step != last {
                        progress(&step);
                        last = step;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub async fn volumes(&self, cluster: &str) -> Result<Vec<Volume>> {
        names::check_name(cluster)?;
        self.get(&format!("/v1/volumes?cluster={cluster}")).await
    }

    pub async fn volume_by_name(&self, name: &str) -> Result<Option<Volume>> {
        names::check_name(name)?;
        let found: Vec<Volume> = self.get(&format!("/v1/volumes?name={name}")).await?;
        Ok(found.into_iter().next())
    }

    pub async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        self.call(Method::POST, "/v1/volumes", &new).await
    }

    pub async fn delete_volume(&self, id: &str) -> Result<()> {
        self.remove(&item("volumes", "volume", id)?).await
    }

    pub async fn networks(&self, cluster: &str) -> Result<Vec<Network>> {
        names::check_name(cluster)?;
        self.get(&format!("/v1/networks?cluster={cluster}")).await
    }

    pub async fn create_network(&self, new: NewNetwork) -> Result<Network> {
        self.call(Method::POST, "/v1/networks", &new).await
    }

    pub async fn delete_network(&self, id: &str) -> Result<()> {
        self.remove(&item("networks", "network", id)?).await
    }

    pub async fn security_groups(&self, cluster: &str) -> Result<Vec<SecurityGroup>> {
        names::check_name(cluster)?;
        self.get(&format!("/v1/security-groups?cluster={cluster}")).await
    }

    pub async fn create_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        self.call(Method::POST, "/v1/security-groups", &new).await
    }

    pub async fn delete_security_group(&self, id: &str) -> Result<()> {
        self.remove(&item("security-groups", "security group", id)?).await
    }

    pub async fn flavors(&self) -> Result<Vec<Flavor>> {
        self.get("/v1/flavors").await
    }

    pub async fn grant(&self, cluster: &str, token: &str) -> Result<()> {
        names::check_name(cluster)?;
        // Only the digest leaves this process.
        let request = GrantRequest { token_sha256: names::sha256_hex(token.as_bytes()) };
        self.call(Method::PUT, &format!("/v1/grants/{cluster}"), &request).await
    }

    pub async fn revoke(&self, cluster: &str) -> Result<()> {
        names::check_name(cluster)?;
        self.remove(&format!("/v1/grants/{cluster}")).await
    }

    /// Does not start a daemon only to end it.
    pub async fn retire(&self) -> Result<bool> {
        if let Some(root) = &self.inner.root
            && launch::find(root, &self.inner.http).await.is_none()
        {
            return Ok(true);
        }
        let Retired { retired } = self.call(Method::POST, "/v1/retire", &()).await?;
        if retired && let Some(root) = &self.inner.root {
            self.forget_endpoint().await;
            await_end(root, &self.inner.http).await;
        }
        Ok(retired)
    }
}

async fn await_end(root: &Path, http: &reqwest::Client) {
    for _ in 0..250 {
        if launch::find(root, http).await.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn encode(body: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(|e| Error::Invalid(e.to_string()))
}

/// The path of one resource. Ids are the cloud's own; anything else cannot exist.
fn item(collection: &str, kind: &'static str, id: &str) -> Result<String> {
    let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if plain {
        Ok(format!("/v1/{collection}/{id}"))
    } else {
        Err(Error::NotFound { kind, name: id.to_string() })
    }
}

/// The file of a program, for copying it into an image.
fn file_of(program: &Path) -> Result<PathBuf> {
    if program != Path::new("/proc/self/exe") {
        return Ok(program.to_path_buf());
    }
    std::env::current_exe().map_err(|e| Error::Failed(format!("cannot find this program's file: {e}")))
}

fn transient(error: &reqwest::Error) -> Error {
    // reqwest's own message names the address only; the cause is below.
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    Error::Transient(cause.to_string())
}
