//! The operations of the local cloud, as calls of its API.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::client::{Client, Endpoint};
use super::wire::{GrantRequest, LabelRequest, Outcome, PowerRequest, Retired, SourceRequest, SourceStatus};
use super::{default_root, executable, launch, names, needs};
use crate::driver::Driver as _;
use crate::{
    AddressRange, Class, Error, Flavor, Image, Instance, Kind, Labels, Layers, Network, NewImage,
    NewInstance, NewNetwork, NewSecurityGroup, NewVolume, Rebuild, Result, SecurityGroup, Volume,
};
use kiln_wire::{SecretText, labels};

const PAGE: usize = 200;
const AT_ONCE: usize = 10;

/// How a control node calls the local cloud's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    url: String,
    token: SecretText,
}

#[derive(Debug, Clone)]
pub struct Driver {
    pub(super) client: Arc<Client>,
}

impl Driver {
    /// The local cloud of this host, for the cluster of a file.
    #[allow(clippy::unnecessary_wraps, reason = "other clouds may refuse")]
    pub fn open(_settings: &kiln_spec::LocalSpec) -> Result<Self> {
        Ok(Self::at_root(default_root()))
    }

    /// The cloud under a directory of this host. Its daemon is started by the first call that needs it.
    pub fn at_root(root: PathBuf) -> Self {
        Self::new(Client::new(Some(root), None, executable()))
    }

    /// The same, with a program other than this process's own.
    pub fn at_root_with(root: PathBuf, program: PathBuf) -> Self {
        Self::new(Client::new(Some(root), None, program))
    }

    /// The cloud behind an address, for instances of it.
    pub fn at_url(url: &str, token: &str) -> Self {
        let endpoint = Endpoint { url: url.trim_end_matches('/').to_string(), token: Some(token.into()) };
        Self::new(Client::new(None, Some(endpoint), executable()))
    }

    fn new(client: Client) -> Self {
        Driver { client: Arc::new(client) }
    }

    async fn try_create(&self, new: &[NewInstance]) -> Result<Vec<Result<Instance>>> {
        let begun = jiff::Timestamp::now();
        let (outcomes, failed) = self.client.call_counting(Method::POST, "/v1/instances", new).await;
        let outcomes: Vec<Outcome<Instance>> = outcomes?;
        let mut results: Vec<Result<Instance>> = outcomes.into_iter().map(Into::into).collect();
        if failed > 0 {
            for (result, new) in results.iter_mut().zip(new) {
                if matches!(result, Err(Error { class: Class::Conflict, .. }))
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
        let Some(cluster) = new.labels.get(labels::CLUSTER) else {
            return Ok(None);
        };
        let all = self.instances(cluster).await?;
        Ok(all.into_iter().find(|i| i.name == new.name && i.created >= begun))
    }

    async fn power(&self, id: &str, verb: &str, hard: bool) -> Result<Instance> {
        let path = format!("{}/{verb}", item("instances", "instance", id)?);
        self.client.call(Method::POST, &path, &PowerRequest { hard }).await
    }
}

impl crate::driver::Driver for Driver {
    type Access = Access;

    const POLL: Duration = Duration::from_millis(50);

    fn at(access: &Access) -> Result<Driver> {
        Ok(Driver::at_url(&access.url, access.token.expose_secret()))
    }

    async fn access(&self, _cluster: &str, token: &str, networks: &[Network]) -> Result<Access> {
        let url = networks.iter().find_map(|n| n.api_url.clone()).unwrap_or_default();
        Ok(Access { url, token: token.into() })
    }

    /// In the order of their creation.
    async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        names::check_name(cluster)?;
        let mut all: Vec<Instance> = Vec::new();
        loop {
            let marker = all.last().map_or("", |i| i.id.as_str());
            let path = format!("/v1/instances?cluster={cluster}&limit={PAGE}&marker={marker}");
            let page: Vec<Instance> = self.client.get(&path).await?;
            let full = page.len() == PAGE;
            all.extend(page);
            if !full {
                // Pages come in the order of ids, which holds while instances come and go.
                all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
                return Ok(all);
            }
        }
    }

    async fn instance(&self, id: &str) -> Result<Instance> {
        self.client.get(&item("instances", "instance", id)?).await
    }

    async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        match self.try_create(&new).await {
            Ok(outcomes) => outcomes,
            Err(error) => new.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        let path = format!("{}/rebuild", item("instances", "instance", id)?);
        self.client.call(Method::POST, &path, &new).await
    }

    async fn reboot(&self, id: &str, hard: bool) -> Result<Instance> {
        self.power(id, "reboot", hard).await
    }

    async fn stop(&self, id: &str, hard: bool) -> Result<Instance> {
        self.power(id, "stop", hard).await
    }

    async fn start(&self, id: &str) -> Result<Instance> {
        self.power(id, "start", false).await
    }

    async fn delete(&self, id: &str) -> Result<()> {
        self.client.remove(&item("instances", "instance", id)?).await
    }

    async fn delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>> {
        let delete = |id: String| async move {
            self.delete(&id).await?;
            gone(&id);
            Ok(())
        };
        let all: Vec<_> = ids.iter().cloned().map(delete).collect();
        futures_util::stream::iter(all).buffered(AT_ONCE).collect().await
    }

    async fn label(&self, kind: Kind, id: &str, labels: Labels) -> Result<()> {
        let request = LabelRequest { kind, labels };
        self.client.call(Method::POST, &item("labels", kind.word(), id)?, &request).await
    }

    async fn set_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        let path = format!("{}/labels", item("instances", "instance", id)?);
        self.client.call(Method::PUT, &path, &labels).await
    }

    async fn console_log(&self, id: &str, lines: usize) -> Result<String> {
        self.client.get(&format!("{}/console?lines={lines}", item("instances", "instance", id)?)).await
    }

    /// In the order of their creation.
    async fn images(&self) -> Result<Vec<Image>> {
        let mut all: Vec<Image> = self.client.get("/v1/images").await?;
        all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(all)
    }

    async fn used_images(&self) -> Result<BTreeSet<String>> {
        self.client.get("/v1/used-images").await
    }

    async fn image(&self, id: &str) -> Result<Image> {
        self.client.get(&item("images", "image", id)?).await
    }

    /// By name or id; the newest of a name.
    async fn find_image(&self, name: &str) -> Result<Image> {
        let all = self.images().await?;
        let found = all.into_iter().rev().find(|i| i.name == name || i.id == name);
        found.ok_or_else(|| Error::not_found("image", name.to_string()))
    }

    async fn create_image(&self, instance: &str, new: NewImage, copied: &(dyn Fn() + Sync)) -> Result<Image> {
        let path = format!("{}/image", item("instances", "instance", instance)?);
        // The daemon writes properties down with the image.
        self.client.call(Method::POST, &path, &new).await.inspect(|_| copied())
    }

    async fn upload_image(&self, _new: NewImage, _file: &Path) -> Result<Image> {
        Err(Error::unsupported("the local cloud makes its images itself: name a Debian suite as the source"))
    }

    async fn layers(&self, image: &str) -> Result<Layers> {
        self.client.get(&format!("{}/layers", item("images", "image", image)?)).await
    }

    async fn delete_image(&self, id: &str) -> Result<()> {
        self.client.remove(&item("images", "image", id)?).await
    }

    async fn source_image(&self, suite: &str, progress: &(dyn Fn(&str) + Sync)) -> Result<Image> {
        let executable = file_of(&self.client.program)?;
        let request = SourceRequest { suite: suite.to_string(), executable };
        let mut last = String::new();
        loop {
            match self.client.call(Method::POST, "/v1/source-image", &request).await? {
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

    async fn volumes(&self, cluster: &str) -> Result<Vec<Volume>> {
        names::check_name(cluster)?;
        let mut all: Vec<Volume> = self.client.get(&format!("/v1/volumes?cluster={cluster}")).await?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    async fn volume_by_name(&self, name: &str) -> Result<Option<Volume>> {
        names::check_volume_name(name)?;
        let found: Vec<Volume> = self.client.get(&format!("/v1/volumes?name={name}")).await?;
        Ok(found.into_iter().next())
    }

    async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        self.make_volume(new).await
    }

    async fn grow_volume(&self, id: &str, size_gib: u64) -> Result<Volume> {
        let path = format!("{}/size", item("volumes", "volume", id)?);
        self.client.call(Method::PUT, &path, &size_gib).await
    }

    async fn delete_volume(&self, id: &str) -> Result<()> {
        self.client.remove(&item("volumes", "volume", id)?).await
    }

    async fn networks(&self, cluster: &str) -> Result<Vec<Network>> {
        names::check_name(cluster)?;
        self.client.get(&format!("/v1/networks?cluster={cluster}")).await
    }

    async fn create_network(&self, new: NewNetwork) -> Result<Network> {
        self.make_network(new).await
    }

    async fn set_automatic(&self, network: &str, ranges: Vec<AddressRange>) -> Result<()> {
        let path = format!("{}/automatic", item("networks", "network", network)?);
        self.client.call(Method::PUT, &path, &ranges).await
    }

    async fn delete_network(&self, id: &str) -> Result<()> {
        self.client.remove(&item("networks", "network", id)?).await
    }

    async fn security_groups(&self, cluster: &str) -> Result<Vec<SecurityGroup>> {
        names::check_name(cluster)?;
        self.client.get(&format!("/v1/security-groups?cluster={cluster}")).await
    }

    async fn create_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        self.make_security_group(new).await
    }

    async fn delete_security_group(&self, id: &str) -> Result<()> {
        self.client.remove(&item("security-groups", "security group", id)?).await
    }

    async fn flavors(&self) -> Result<Vec<Flavor>> {
        self.client.get("/v1/flavors").await
    }

    async fn grant(&self, cluster: &str, token: &str) -> Result<()> {
        names::check_name(cluster)?;
        // Only the digest leaves this process.
        let request = GrantRequest { token_sha256: names::sha256_hex(token.as_bytes()) };
        self.client.call(Method::PUT, &format!("/v1/grants/{cluster}"), &request).await
    }

    async fn revoke(&self, cluster: &str) -> Result<()> {
        names::check_name(cluster)?;
        self.client.remove(&format!("/v1/grants/{cluster}")).await
    }

    /// Does not start a daemon only to end it.
    async fn retire(&self) -> Result<bool> {
        if self.client.root.is_some() {
            needs::root()?;
            if launch::find(&self.client.http).await.is_none() {
                return Ok(true);
            }
        }
        let Retired { retired } = self.client.call(Method::POST, "/v1/retire", &()).await?;
        if retired && self.client.root.is_some() {
            self.client.forget_endpoint().await;
            launch::await_end(&self.client.http).await;
        }
        Ok(retired)
    }
}

/// The path of one resource. Ids are the cloud's own; anything else cannot exist.
fn item(collection: &str, kind: &'static str, id: &str) -> Result<String> {
    let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if plain { Ok(format!("/v1/{collection}/{id}")) } else { Err(Error::not_found(kind, id.to_string())) }
}

/// The file of a program, for copying it into an image.
fn file_of(program: &Path) -> Result<PathBuf> {
    if program != Path::new("/proc/self/exe") {
        return Ok(program.to_path_buf());
    }
    std::env::current_exe().map_err(|e| Error::failed("cannot find this program's file").because(e))
}
