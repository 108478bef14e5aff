//! Servers: listed by the cluster's tag, made in bulk, rebuilt in place.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{encode, take};
use super::driver::{Driver, bounded, checked, missing, until};
use super::labels::{cluster_of, tag};
use super::session::Service::Compute;
use super::wire::{NamedId, Port, Server};
use crate::retry::{Policy, retry};
use crate::{Error, Instance, InstanceStatus, Labels, NewInstance, Rebuild, Result, label};

/// For a server to be off, on, or gone.
const POWER_LIMIT: Duration = Duration::from_secs(300);

impl Driver {
    /// In the order of their creation.
    pub async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        // In an order that holds while servers come and go: pages are turned meanwhile.
        let path = format!("/servers/detail?tags={}&sort_key=uuid&sort_dir=asc", encode(&tag(cluster)));
        let all: Vec<Server> = self.client.list(Compute, &path, "servers").await?;
        // The tag finds them; the label is what says whose they are.
        let ours = |s: &Server| s.metadata.get(label::CLUSTER).is_some_and(|c| c == cluster);
        let mut all: Vec<Instance> = all.into_iter().filter(ours).map(Server::instance).collect();
        self.complete(cluster, &mut all).await?;
        all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(all)
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
        let outside = |i: &Instance| i.labels.get(label::ROLE).is_some_and(|r| r == "login" || r == "build");
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

    async fn server(&self, id: &str) -> Result<Server> {
        let path = format!("/servers/{}", checked("instance", id)?);
        missing(self.client.get(Compute, &path, "server").await, "instance", id)
    }

    pub async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        match self.try_create(&new).await {
            Ok(results) => results,
            Err(error) => new.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn try_create(&self, new: &[NewInstance]) -> Result<Vec<Result<Instance>>> {
        let taken = self.taken_names(new).await?;
        let free: Vec<&NewInstance> = new.iter().filter(|n| !taken.contains_key(&n.name)).collect();
        let ports = self.ensure_ports(&free).await?;
        let make = |new: NewInstance| {
            let (taken, port) = (taken.get(&new.name).cloned(), ports.get(&new.name).cloned());
            async move {
                match (taken, port) {
                    (Some(conflict), _) => Err(Error::Conflict(conflict)),
                    (None, None) => Err(Error::Failed(format!("{} has no port", new.name))),
                    (None, Some(port)) => self.create_one(&new, &port?).await,
                }
            }
        };
        Ok(bounded(new.to_vec(), make).await)
    }

    /// Names that are taken, each with why. Another Kiln cluster may have a node of the same name; somebody else's
    /// server of that name would only be mistaken for the node.
    async fn taken_names(&self, new: &[NewInstance]) -> Result<BTreeMap<String, String>> {
        let all: Vec<NamedId> = self.client.list(Compute, "/servers", "servers").await?;
        let same: Vec<&NamedId> = all.iter().filter(|s| new.iter().any(|n| n.name == s.name)).collect();
        let mut taken = BTreeMap::new();
        for found in same {
            let server = match self.server(&found.id).await {
                Ok(server) => server,
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let whose = cluster_of(&server.metadata);
            let own = |n: &&NewInstance| n.name == server.name && cluster_of(&n.labels) == whose;
            if whose.is_none() {
                let text = format!("server {} exists already and is not Kiln's", server.name);
                taken.insert(server.name, text);
            } else if new.iter().any(|n| own(&n)) {
                taken
                    .insert(server.name.clone(), format!("the cluster has a server {} already", server.name));
            }
        }
        Ok(taken)
    }

    /// The address outside comes first: a server without the one it should have would be mistaken for complete.
    async fn create_one(&self, new: &NewInstance, port: &Port) -> Result<Instance> {
        let made = async {
            let public_address =
                if new.public { self.ensure_floating(port, &new.labels).await? } else { None };
            let body = self.server_body(new, port).await?;
            let instance = self.post_server(new, port, &body).await?;
            Ok(Instance { public_address, ..instance })
        };
        match made.await {
            Ok(instance) => Ok(instance),
            Err(error) => {
                // A port without a server is of no use; should this fail, too, the next run finds it by its label.
                let _ = self.delete_port(port).await;
                Err(error)
            }
        }
    }

    /// The answer to a request may get lost after the server was made: before it is sent again, the server is looked
    /// for. Should it turn up later still, it cannot get the port, which is the first one's.
    async fn post_server(&self, new: &NewInstance, port: &Port, body: &Value) -> Result<Instance> {
        let answer = retry(&Policy::REMOTE, |attempt| async move {
            if attempt > 0
                && let Some(id) = self.server_of_port(port).await?
            {
                return Ok(id);
            }
            match self.client.request(Compute, Method::POST, "/servers", Some(body)).once().await {
                Ok(answer) => take::<super::wire::Id>(answer, "server", "/servers").map(|server| server.id),
                // The port is in use: by the server that an earlier attempt made.
                Err(Error::Conflict(why)) if attempt > 0 => {
                    self.server_of_port(port).await?.ok_or(Error::Transient(why))
                }
                Err(error) => Err(error),
            }
        })
        .await;
        let id = match answer {
            Ok(id) => id,
            Err(Error::Invalid(why)) if why.contains("image") || why.contains("Image") => {
                return Err(Error::Invalid(format!("{}: {why}", new.name)));
            }
            Err(error) => return Err(error),
        };
        Ok(Instance {
            id,
            name: new.name.clone(),
            status: InstanceStatus::Building,
            image: Some(new.image.clone()),
            flavor: new.flavor.clone(),
            address: port.address(),
            public_address: None,
            labels: self.metadata(&new.labels, &new.image),
            volumes: new.volumes.iter().map(|v| v.volume.clone()).collect(),
            created: Timestamp::now(),
            built: None,
        })
    }

    /// A server of the cluster with the port's name: names are a cluster's own.
    async fn server_of_port(&self, port: &Port) -> Result<Option<String>> {
        let labels = port.labels();
        let Some(cluster) = cluster_of(&labels) else { return Ok(None) };
        let found = self.instances(cluster).await?;
        Ok(found.into_iter().find(|i| i.name == port.name).map(|i| i.id))
    }

    async fn server_body(&self, new: &NewInstance, port: &Port) -> Result<Value> {
        let cluster = cluster_of(&new.labels).unwrap_or_default();
        let mut server = json!({
            "name": new.name,
            "flavorRef": self.flavor_id(&new.flavor).await?,
            "networks": [{ "port": port.id }],
            "user_data": STANDARD.encode(&new.user_data),
            "key_name": self.ensure_key_pair(cluster, &new.ssh_key).await?,
            "metadata": self.metadata(&new.labels, &new.image),
            "tags": [tag(cluster)],
            "config_drive": true,
        });
        let mut disks: Vec<Value> = Vec::new();
        if let Some(root) = &self.settings.root_disk {
            let mut disk = json!({
                "boot_index": 0, "uuid": new.image, "source_type": "image", "destination_type": "volume",
                "volume_size": root.size_gib, "delete_on_termination": true,
            });
            if let Some(kind) = &root.volume_type {
                disk["volume_type"] = json!(kind);
            }
            disks.push(disk);
        } else {
            server["imageRef"] = json!(new.image);
            if !new.volumes.is_empty() {
                // Nova wants to hear of the first disk as soon as it hears of any.
                disks.push(json!({
                    "boot_index": 0, "uuid": new.image, "source_type": "image", "destination_type": "local",
                    "delete_on_termination": true,
                }));
            }
        }
        disks.extend(new.volumes.iter().map(|attachment| {
            json!({
                "boot_index": -1, "uuid": attachment.volume, "source_type": "volume",
                "destination_type": "volume", "delete_on_termination": false,
            })
        }));
        if !disks.is_empty() {
            server["block_device_mapping_v2"] = Value::Array(disks);
        }
        if let Some(zone) = new.zone.as_ref().or(self.settings.availability_zone.as_ref()) {
            server["availability_zone"] = json!(zone);
        }
        let mut body = json!({ "server": server });
        if let Some(group) = self.ensure_server_group(&new.labels).await? {
            body["os:scheduler_hints"] = json!({ "group": group });
        }
        Ok(body)
    }

    /// Nova does not say what a root volume was made from, so it is noted.
    fn metadata(&self, labels: &Labels, image: &str) -> Labels {
        let mut labels = labels.clone();
        if self.settings.root_disk.is_some() || labels.contains_key(label::IMAGE) {
            labels.insert(label::IMAGE.into(), image.to_string());
        }
        labels
    }

    pub async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        let path = format!("/servers/{}/action", checked("instance", id)?);
        let server = self.own_server(id).await?;
        let cluster = cluster_of(&server.metadata).unwrap_or_default().to_string();
        let mut labels = self.metadata(&new.labels, &new.image);
        if server.is_on_volume() {
            labels.insert(label::IMAGE.into(), new.image.clone());
        }
        let body = json!({ "rebuild": {
            "imageRef": new.image,
            "user_data": STANDARD.encode(&new.user_data),
            "key_name": self.ensure_key_pair(&cluster, &new.ssh_key).await?,
            // Nova replaces all of it.
            "metadata": labels,
        }});
        let (body, path) = (&body, &path);
        let answer = retry(&Policy::REMOTE, |attempt| async move {
            // An earlier attempt whose answer was lost has begun it.
            if attempt > 0 && self.server(id).await?.status() == InstanceStatus::Rebuilding {
                return Ok(None);
            }
            match self.client.request(Compute, Method::POST, path, Some(body)).once().await {
                Err(Error::Conflict(_)) if attempt > 0 => Ok(None),
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
            return Err(Error::Conflict(format!("server {} ({id}) is not Kiln's", server.name)));
        }
        Ok(server)
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
        self.power(id, "os-stop", &InstanceStatus::Stopped).await
    }

    pub async fn start(&self, id: &str) -> Result<Instance> {
        self.power(id, "os-start", &InstanceStatus::Active).await
    }

    async fn power(&self, id: &str, action: &str, wanted: &InstanceStatus) -> Result<Instance> {
        let server = self.own_server(id).await?;
        let name = server.name.clone();
        if server.status() == *wanted && server.task.is_none() {
            return Ok(server.instance());
        }
        match self.act(id, json!({ action: null })).await {
            // An earlier attempt whose answer was lost has done it.
            Err(Error::Conflict(why)) if self.instance(id).await?.status != *wanted => {
                return Err(Error::Conflict(why));
            }
            Err(error) if !matches!(error, Error::Conflict(_)) => return Err(error),
            _ => {}
        }
        until(
            POWER_LIMIT,
            || format!("{name} is not {}", wanted.word()),
            || async {
                let instance = self.instance(id).await?;
                match &instance.status {
                    InstanceStatus::Error { reason } => Err(Error::Failed(format!("{name}: {reason}"))),
                    status => Ok((status == wanted).then_some(instance)),
                }
            },
        )
        .await
    }

    pub async fn delete(&self, id: &str) -> Result<()> {
        self.delete_all(&[id.to_string()], &|_| {}).await.into_iter().collect()
    }

    /// Asked for all together, then watched in listings; `gone` hears of each.
    pub async fn delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>> {
        match self.try_delete_all(ids, gone).await {
            Ok(results) => results,
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn try_delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Result<Vec<Result<()>>> {
        let found = self.find_own(ids).await?;
        let clusters: BTreeSet<&str> = found.values().flatten().map(String::as_str).collect();
        // While they are still the servers': a port that was freed does not say whose it was.
        let mut ports: Vec<Port> = Vec::new();
        for cluster in &clusters {
            ports.extend(self.ports(cluster).await?);
        }
        let asked = bounded(ids.to_vec(), |id: String| {
            let found = found.get(&id).cloned();
            async move {
                match found {
                    None => Ok(()),
                    Some(None) => Err(Error::Conflict(format!("server {id} is not Kiln's"))),
                    Some(Some(_)) => self.client.delete(Compute, &format!("/servers/{id}")).await,
                }
            }
        })
        .await;
        let mut waiting: Vec<&String> =
            ids.iter().zip(&asked).filter(|(_, a)| a.is_ok()).map(|(id, _)| id).collect();
        let deadline = tokio::time::Instant::now() + POWER_LIMIT;
        while !waiting.is_empty() {
            let mut left = Vec::new();
            for cluster in &clusters {
                left.extend(self.instances(cluster).await?);
            }
            let is_left = |id: &String| left.iter().any(|i| i.id == *id);
            let (still, over): (Vec<&String>, Vec<&String>) = waiting.into_iter().partition(|id| is_left(id));
            let freed: Vec<Port> =
                ports.iter().filter(|p| over.iter().any(|id| **id == p.device_id)).cloned().collect();
            let deleted = bounded(freed, |port: Port| async move { self.delete_port(&port).await }).await;
            deleted.into_iter().collect::<Result<Vec<()>>>()?;
            for id in over {
                gone(id);
            }
            waiting = still;
            if let Some(stuck) = left
                .iter()
                .find(|i| waiting.contains(&&i.id) && matches!(i.status, InstanceStatus::Error { .. }))
                && let InstanceStatus::Error { reason } = &stuck.status
                && tokio::time::Instant::now() >= deadline
            {
                return Err(Error::Failed(format!("{} cannot be deleted: {reason}", stuck.name)));
            }
            if !waiting.is_empty() {
                if tokio::time::Instant::now() >= deadline {
                    return Err(Error::Failed(format!("{} instances are not gone in time", waiting.len())));
                }
                tokio::time::sleep(super::driver::LOOK_EVERY).await;
            }
        }
        Ok(asked)
    }

    /// Those that exist, each with its cluster if it has one. One listing answers for all of a cluster.
    async fn find_own(&self, ids: &[String]) -> Result<BTreeMap<String, Option<String>>> {
        let mut found: BTreeMap<String, Option<String>> = BTreeMap::new();
        for id in ids {
            if found.contains_key(id) {
                continue;
            }
            let server = match self.server(id).await {
                Err(Error::NotFound { .. }) => continue,
                other => other?,
            };
            let cluster = cluster_of(&server.metadata).map(String::from);
            if let Some(cluster) = &cluster {
                for instance in self.instances(cluster).await? {
                    found.insert(instance.id, Some(cluster.clone()));
                }
            }
            found.insert(id.clone(), cluster);
        }
        Ok(found)
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
