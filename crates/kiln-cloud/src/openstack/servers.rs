//! Servers that are there: listed by the cluster's tag, rebuilt in place, rebooted, stopped. How they come is in
//! `create.rs`, how they go in `delete.rs`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::take;
use super::driver::{Driver, PACE, checked, missing};
use super::labels::{cluster_of, tag};
use super::session::Service::Compute;
use super::wire::{Port, Server};
use crate::remote::{encode, until};
use crate::retry::{Policy, is_once, retry};
use crate::{Class, Error, Instance, InstanceStatus, Labels, Rebuild, Result};
use kiln_wire::labels;

/// For a server to be off, on, or gone.
pub(super) const POWER_LIMIT: Duration = Duration::from_secs(300);
/// What a caller has looked at before may be otherwise by then.
const STALE: Duration = Duration::from_secs(5);
/// Until the caller looks again at a server that was off.
const AFTER_START: Duration = Duration::from_secs(1);

impl Driver {
    /// In the order of their creation.
    pub async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        // In an order that holds while servers come and go: pages are turned meanwhile.
        let path = format!("/servers/detail?tags={}&sort_key=uuid&sort_dir=asc", encode(&tag(cluster)));
        let all: Vec<Server> = self.client.list(Compute, &path, "servers").await?;
        // The tag finds them; the label is what says whose they are.
        let ours = |s: &Server| s.metadata.get(labels::CLUSTER).is_some_and(|c| c == cluster);
        let mut all: Vec<Instance> = all.into_iter().filter(ours).map(Server::instance).collect();
        self.complete(cluster, &mut all).await?;
        all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(all)
    }

    /// Images of all servers of the project, whoever made them.
    pub async fn used_images(&self) -> Result<BTreeSet<String>> {
        let all: Vec<Server> =
            self.client.list(Compute, "/servers/detail?sort_key=uuid&sort_dir=asc", "servers").await?;
        Ok(all.into_iter().filter_map(|server| server.instance().image).collect())
    }

    /// Nova learns late which addresses a server has: its fixed one while it is being built, a floating one later
    /// still. Neutron knows from the start.
    async fn complete(&self, cluster: &str, instances: &mut [Instance]) -> Result<()> {
        if instances.iter().any(|i| i.address.is_none()) {
            let ports = self.ports(cluster).await?;
            for instance in instances.iter_mut().filter(|i| i.address.is_none()) {
                let own = |p: &&Port| {
                    p.device_id == instance.id || (p.device_id.is_empty() && p.name == instance.name)
                };
                instance.address = ports.iter().find(own).and_then(Port::address);
            }
        }
        let outside = |i: &Instance| {
            i.labels.get(labels::ROLE).is_some_and(|r| r == "login" || r == labels::BUILD_ROLE)
        };
        if instances.iter().any(|i| i.public_address.is_none() && outside(i)) {
            let floating = self.floating_of(cluster).await?;
            for instance in instances.iter_mut().filter(|i| i.public_address.is_none()) {
                instance.public_address = instance.address.and_then(|a| floating.get(&a).copied());
            }
        }
        Ok(())
    }

    pub async fn instance(&self, id: &str) -> Result<Instance> {
        self.server(id).await.map(Server::instance)
    }

    pub(super) async fn server(&self, id: &str) -> Result<Server> {
        let path = format!("/servers/{}", checked("instance", id)?);
        let server: Server = missing(self.client.get(Compute, &path, "server").await, "instance", id)?;
        if server.is_out_of_reach() {
            return Err(Error::unanswered(format!("the cell of server {id} does not answer")));
        }
        Ok(server)
    }

    /// Nova does not say what a root volume was made from, so it is noted.
    pub(super) fn metadata(&self, labels: &Labels, image: &str) -> Labels {
        let mut labels = labels.clone();
        if self.settings.root_disk.is_some() || labels.contains_key(labels::IMAGE) {
            labels.insert(labels::IMAGE.into(), image.to_string());
        }
        labels
    }

    pub async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        match self.try_rebuild(id, &new).await {
            // Its key pair may be gone since it was looked up.
            Err(Error { class: Class::Refused, .. }) => {
                self.known.forget().await;
                self.try_rebuild(id, &new).await
            }
            done => done,
        }
    }

    async fn try_rebuild(&self, id: &str, new: &Rebuild) -> Result<Instance> {
        let path = format!("/servers/{}/action", checked("instance", id)?);
        let server = self.own_server(id).await?;
        let cluster = cluster_of(&server.metadata).unwrap_or_default().to_string();
        let mut labels = self.metadata(&new.labels, &new.image);
        if server.is_on_volume() {
            labels.insert(labels::IMAGE.into(), new.image.clone());
        }
        let body = json!({ "rebuild": {
            "imageRef": new.image,
            "user_data": STANDARD.encode(new.user_data.expose_secret()),
            "key_name": self.ensure_key_pair(&cluster, &new.ssh_key).await?,
            // Nova replaces all of it.
            "metadata": labels,
        }});
        // Nova would turn a server that is off, off again. One that cannot be started is rebuilt all the same.
        if server.status() == InstanceStatus::Stopped {
            let asked = Instant::now();
            match self.start(id).await {
                // A start takes minutes at times, and the node may be at work since. Soon again: it boots the old image meanwhile.
                Ok(_) if is_once() => return Err(started_first(&server)),
                Err(Error { class: Class::Failed, .. }) if is_once() && asked.elapsed() >= STALE => {
                    if self.server(id).await?.status() != InstanceStatus::Stopped {
                        return Err(started_first(&server));
                    }
                }
                Ok(_) | Err(Error { class: Class::Failed, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let (body, path) = (&body, &path);
        let answer = retry(&Policy::REMOTE, |attempt| async move {
            // An earlier attempt whose answer was lost has begun it.
            if attempt > 0 && self.server(id).await?.status() == InstanceStatus::Rebuilding {
                return Ok(None);
            }
            match self.client.request(Compute, Method::POST, path, Some(body)).once().await {
                Err(Error { class: Class::Conflict, .. }) if attempt > 0 => Ok(None),
                answer => answer,
            }
        });
        let answer = missing(answer.await, "instance", id)?;
        // Nova answers with the server as it is now.
        let mut instance = match take::<Server>(answer, "server", path) {
            Ok(server) => server.instance(),
            Err(_) => self.instance(id).await?,
        };
        // It may be over already, but the state must not be mistaken for the one before.
        if instance.status == InstanceStatus::Active && instance.built <= server.instance().built {
            instance.status = InstanceStatus::Rebuilding;
        }
        Ok(instance)
    }

    /// One that carries Kiln's label: no other is ever touched.
    async fn own_server(&self, id: &str) -> Result<Server> {
        let server = self.server(id).await?;
        if cluster_of(&server.metadata).is_none() {
            return Err(Error::conflict(format!("server {} ({id}) is not Kiln's", server.name)));
        }
        Ok(server)
    }

    /// What the cloud keeps for a while after it was deleted.
    pub(super) async fn delete_for_good(&self, id: &str) -> Result<()> {
        self.act(id, json!({ "forceDelete": null })).await
    }

    async fn act(&self, id: &str, action: Value) -> Result<()> {
        let path = format!("/servers/{}/action", checked("instance", id)?);
        missing(
            self.client.request(Compute, Method::POST, &path, Some(&action)).retried().await,
            "instance",
            id,
        )
        .map(drop)
    }

    pub async fn reboot(&self, id: &str, hard: bool) -> Result<Instance> {
        self.own_server(id).await?;
        self.act(id, json!({ "reboot": { "type": if hard { "HARD" } else { "SOFT" } } })).await?;
        self.instance(id).await
    }

    pub async fn stop(&self, id: &str, _hard: bool) -> Result<Instance> {
        self.power(id, "os-stop", "powering-off", &InstanceStatus::Stopped).await
    }

    pub async fn start(&self, id: &str) -> Result<Instance> {
        self.power(id, "os-start", "powering-on", &InstanceStatus::Active).await
    }

    /// `task`: what Nova says while it is at it. Nova does one thing at a time with a server and refuses the next, so
    /// another task is waited for: a server that was just rebooted can be stopped.
    async fn power(&self, id: &str, action: &str, task: &str, wanted: &InstanceStatus) -> Result<Instance> {
        let name = self.own_server(id).await?.name;
        let server = until(
            PACE,
            POWER_LIMIT,
            || format!("{name} is busy with another task of the cloud"),
            || async {
                let server = self.server(id).await?;
                Ok(server.task.as_deref().is_none_or(|now| now == task).then_some(server))
            },
        )
        .await?;
        if server.status() == *wanted && server.task.is_none() {
            return Ok(server.instance());
        }
        match self.act(id, json!({ action: null })).await {
            Ok(()) => {}
            // An earlier attempt whose answer was lost has done it, or Nova is still at it.
            Err(error) if error.is_conflict() => {
                let now = self.server(id).await?;
                if now.status() != *wanted && now.task.as_deref() != Some(task) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        until(
            PACE,
            POWER_LIMIT,
            || format!("{name} is not {}", wanted.word()),
            || async {
                let instance = self.instance(id).await?;
                match &instance.status {
                    InstanceStatus::Error { reason } => Err(Error::failed(format!("{name}: {reason}"))),
                    status => Ok((status == wanted).then_some(instance)),
                }
            },
        )
        .await
    }

    /// Nova merges what is sent so.
    pub async fn add_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        self.own_server(id).await?;
        let path = format!("/servers/{}/metadata", checked("instance", id)?);
        let body = json!({ "metadata": labels });
        self.client.request(Compute, Method::POST, &path, Some(&body)).retried().await?;
        self.instance(id).await
    }

    pub async fn set_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        self.own_server(id).await?;
        let path = format!("/servers/{}/metadata", checked("instance", id)?);
        self.client
            .request(Compute, Method::PUT, &path, Some(&json!({ "metadata": labels })))
            .retried()
            .await?;
        self.instance(id).await
    }

    pub async fn console_log(&self, id: &str, lines: usize) -> Result<String> {
        let path = format!("/servers/{}/action", checked("instance", id)?);
        let body = json!({ "os-getConsoleOutput": { "length": lines } });
        let answer = self.client.request(Compute, Method::POST, &path, Some(&body)).retried().await?;
        take(missing(Ok(answer), "instance", id)?, "output", &path)
    }
}

fn started_first(server: &Server) -> Error {
    let text = format!("{} was off and is started before it is rebuilt", server.name);
    Error::new(Class::Busy { after: Some(AFTER_START) }, text)
}
