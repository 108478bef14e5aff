//! New servers, in bulk, each with its port and, if it is to be reached from outside, its floating IP.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::take;
use super::driver::Driver;
use super::fault::taken;
use super::labels::{cluster_of, tag};
use super::session::Service::Compute;
use super::wire::{Id, NamedId, Port};
use crate::remote::bounded;
use crate::retry::{Policy, retry};
use crate::{Class, Error, Instance, InstanceStatus, NewInstance, Result};

/// How long a server may take to show up whose request got no proper answer.
const LATE: Duration = Duration::from_secs(30);

impl Driver {
    pub async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        let made = match self.try_create(&new).await {
            Ok(results) => results,
            Err(error) => new.iter().map(|_| Err(error.clone())).collect(),
        };
        // A flavor, a key pair or a group may have been replaced since it was looked up.
        if made.iter().filter_map(|result| result.as_ref().err()).any(|error| error.class == Class::Refused) {
            self.known.forget().await;
        }
        made
    }

    async fn try_create(&self, new: &[NewInstance]) -> Result<Vec<Result<Instance>>> {
        let taken = self.taken_names(new).await?;
        let free: Vec<&NewInstance> = new.iter().filter(|n| !taken.contains_key(&n.name)).collect();
        let ports = self.ensure_ports(&free).await?;
        let make = |new: NewInstance| {
            let (taken, port) = (taken.get(&new.name).cloned(), ports.get(&new.name).cloned());
            async move {
                match (taken, port) {
                    (Some(conflict), _) => Err(conflict),
                    (None, None) => Err(Error::failed(format!("{} has no port", new.name))),
                    (None, Some(port)) => self.create_one(&new, &port?).await,
                }
            }
        };
        Ok(bounded(new.to_vec(), make).await)
    }

    /// Names that are taken, each with why. Another Kiln cluster may have a node of the same name; somebody else's
    /// server of that name would only be mistaken for the node.
    async fn taken_names(&self, new: &[NewInstance]) -> Result<BTreeMap<String, Error>> {
        let all: Vec<NamedId> = self.client.list(Compute, "/servers", "servers").await?;
        let same: Vec<&NamedId> = all.iter().filter(|s| new.iter().any(|n| n.name == s.name)).collect();
        let mut names = BTreeMap::new();
        for found in same {
            let server = match self.server(&found.id).await {
                Ok(server) => server,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            let whose = cluster_of(&server.metadata);
            let own = |n: &&NewInstance| n.name == server.name && cluster_of(&n.labels) == whose;
            if whose.is_none() {
                let conflict = taken(&format!("server {}", server.name), "Kiln's");
                names.insert(server.name, conflict);
            } else if new.iter().any(|n| own(&n)) {
                let conflict = Error::conflict(format!("the cluster has a server {} already", server.name));
                names.insert(server.name, conflict);
            }
        }
        Ok(names)
    }

    /// The address outside comes first: a server without the one it should have would be mistaken for complete.
    async fn create_one(&self, new: &NewInstance, port: &Port) -> Result<Instance> {
        let made = async {
            let public_address =
                if new.public { self.ensure_floating(port, &new.labels).await? } else { None };
            let body = self.server_body(new, port).await?;
            for attachment in &new.volumes {
                self.note_use(&attachment.volume).await?;
            }
            let instance = self.post_server(new, port, &body).await?;
            Ok(Instance { public_address, ..instance })
        };
        match made.await {
            Ok(instance) => Ok(instance),
            Err(error) => {
                // A port without a server is of no use; should this fail, too, the next run finds it by its label. One
                // that a server has after all, though no answer said so, is that server's.
                if let Ok(None) = self.server_of_port(port).await {
                    let _ = self.delete_port(port).await;
                }
                Err(error)
            }
        }
    }

    /// The answer to a request may get lost after the server was made, or while Nova is still at it: before it is sent
    /// again, the server is looked for. Should it turn up later still, only one of the two gets the port; the other
    /// ends in ERROR.
    async fn post_server(&self, new: &NewInstance, port: &Port, body: &Value) -> Result<Instance> {
        let lost = &AtomicBool::new(false);
        let answer = retry(&Policy::REMOTE, |attempt| async move {
            if lost.swap(false, Ordering::Relaxed)
                && let Some(id) = self.late_server_of(port).await?
            {
                return Ok(id);
            }
            match self.client.request(Compute, Method::POST, "/servers", Some(body)).once().await {
                Ok(answer) => take::<Id>(answer, "server", "/servers").map(|server| server.id),
                // The port is in use: by the server that an earlier attempt made.
                Err(error) if error.is_conflict() && attempt > 0 => {
                    self.server_of_port(port).await?.ok_or(error.sorted(Class::Unanswered))
                }
                Err(error) => {
                    lost.store(error.class == Class::Unanswered, Ordering::Relaxed);
                    Err(error)
                }
            }
        })
        .await;
        let id = match answer {
            Ok(id) => id,
            Err(error) if error.class == Class::Refused => return Err(error.about(&new.name)),
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

    /// What stands between Kiln and Nova may give up before Nova does.
    async fn late_server_of(&self, port: &Port) -> Result<Option<String>> {
        let deadline = tokio::time::Instant::now() + LATE;
        loop {
            let found = self.server_of_port(port).await?;
            if found.is_some() || tokio::time::Instant::now() >= deadline {
                return Ok(found);
            }
            tokio::time::sleep(super::driver::LOOK_EVERY).await;
        }
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
            "user_data": STANDARD.encode(new.user_data.expose_secret()),
            "key_name": self.ensure_key_pair(cluster, &new.ssh_key).await?,
            "metadata": self.metadata(&new.labels, &new.image),
            "tags": [tag(cluster)],
            "config_drive": true,
        });
        let mut disks: Vec<Value> = Vec::new();
        let root = self.settings.root_disk.as_ref();
        if let Some(size) = new.disk_gib.or(root.map(|root| root.size_gib)) {
            let mut disk = json!({
                "boot_index": 0, "uuid": new.image, "source_type": "image", "destination_type": "volume",
                "volume_size": size, "delete_on_termination": true,
            });
            if let Some(kind) = root.and_then(|root| root.volume_type.as_ref()) {
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
}
