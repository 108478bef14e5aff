//! Volumes.

use std::sync::Mutex;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::take;
use super::driver::{Driver, PACE, checked, missing};
use super::fault::taken;
use super::labels::cluster_of;
use super::session::Service::Volume as Cinder;
use super::wire::WireVolume;
use crate::remote::{encode, until};
use crate::retry::{Policy, retry};
use crate::types::is_unused;
use crate::{Class, Error, Labels, NewVolume, Result, Volume};
use kiln_wire::labels;

const LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug, Deserialize)]
struct Snapshot {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    metadata: Labels,
}

impl Driver {
    pub async fn volumes(&self, cluster: &str) -> Result<Vec<Volume>> {
        let mut all: Vec<Volume> =
            self.wire_volumes(cluster).await?.into_iter().map(WireVolume::volume).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    async fn wire_volumes(&self, cluster: &str) -> Result<Vec<WireVolume>> {
        let filter = json!({ labels::CLUSTER: cluster }).to_string();
        let path = format!("/volumes/detail?metadata={}", encode(&filter));
        let mut all: Vec<WireVolume> = self.client.list(Cinder, &path, "volumes").await?;
        all.retain(|v| cluster_of(&v.metadata) == Some(cluster));
        Ok(all)
    }

    /// What an image build left. In this order: a volume may hold on to the snapshot it was made from, and a snapshot to
    /// the root disk it was taken of.
    pub(super) async fn clear_build_volumes(&self, cluster: &str) -> Result<()> {
        let volumes = self.wire_volumes(cluster).await?;
        let (copies, roots): (Vec<_>, Vec<_>) =
            volumes.iter().filter(|v| of_build(&v.metadata)).partition(|v| v.snapshot_id.is_some());
        for copy in copies {
            self.delete_volume(&copy.id).await?;
        }
        let filter = json!({ labels::CLUSTER: cluster }).to_string();
        let path = format!("/snapshots/detail?metadata={}", encode(&filter));
        let snapshots: Vec<Snapshot> = self.client.list(Cinder, &path, "snapshots").await?;
        let ours = |s: &&Snapshot| cluster_of(&s.metadata) == Some(cluster) && of_build(&s.metadata);
        for snapshot in snapshots.iter().filter(ours) {
            self.delete_snapshot(&snapshot.id).await?;
        }
        // That of a server goes with it.
        for root in roots.iter().filter(|v| v.status != "in-use") {
            self.delete_volume(&root.id).await?;
        }
        Ok(())
    }

    /// Those that somebody took, as a backup perhaps, are for them to delete. Cinder's refusal does not say that it is
    /// them.
    async fn check_snapshots(&self, volume: &str, name: &str) -> Result<()> {
        let path = format!("/snapshots/detail?volume_id={}", encode(volume));
        let mut there: Vec<Snapshot> = self.client.list(Cinder, &path, "snapshots").await?;
        there.retain(|snapshot| snapshot.status != "deleting");
        if there.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = there.into_iter().map(|s| s.name.unwrap_or(s.id)).collect();
        Err(Error::conflict(format!(
            "volume {name} cannot be deleted while there are snapshots of it: {}",
            names.join(", ")
        )))
    }

    /// Returns when it is gone.
    pub(super) async fn delete_snapshot(&self, id: &str) -> Result<()> {
        let path = format!("/snapshots/{id}");
        self.while_in_use(|| self.client.delete(Cinder, &path)).await?;
        until(
            PACE,
            LIMIT,
            || "the snapshot is not gone".into(),
            || async {
                match self.client.request(Cinder, Method::GET, &path, None).retried().await {
                    Err(error) if error.is_not_found() => Ok(Some(())),
                    answer => answer.map(|_| None),
                }
            },
        )
        .await
    }

    pub async fn volume_by_name(&self, name: &str) -> Result<Option<Volume>> {
        let found = self.volumes_named(name).await?;
        if found.len() > 1 {
            return Err(Error::conflict(format!("several volumes are named {name}; Kiln cannot choose")));
        }
        Ok(found.into_iter().next().map(WireVolume::volume))
    }

    async fn volumes_named(&self, name: &str) -> Result<Vec<WireVolume>> {
        let path = format!("/volumes/detail?name={}", encode(name));
        self.client.list(Cinder, &path, "volumes").await
    }

    pub async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        let mut body = json!({ "name": new.name, "size": new.size_gib, "metadata": new.labels });
        if let Some(zone) = &self.settings.availability_zone {
            body["availability_zone"] = json!(zone);
        }
        self.make_volume(&new.name, &new.labels, &json!({ "volume": body })).await
    }

    /// Looked for before every attempt. Returns when it can be used.
    pub(super) async fn make_volume(&self, name: &str, labels: &Labels, body: &Value) -> Result<Volume> {
        let id = retry(&Policy::REMOTE, |_| async move {
            for there in self.volumes_named(name).await? {
                if cluster_of(&there.metadata) != cluster_of(labels) {
                    return Err(taken(&format!("volume {name}"), "this cluster's"));
                }
                if there.status != "error" {
                    return Ok(there.id);
                }
                // Whatever was planned: it may have been used since.
                let id = there.id.clone();
                if !of_build(labels) && !there.volume().never_used() {
                    return Err(Error::conflict(format!(
                        "volume {name}: the cloud reports an error, and it may hold data; it is not recreated"
                    )));
                }
                self.delete_volume(&id).await?;
            }
            let answer = self.client.request(Cinder, Method::POST, "/volumes", Some(body)).once().await?;
            take::<super::wire::Id>(answer, "volume", "/volumes").map(|v| v.id)
        })
        .await?;
        self.wait_volume(&id, &["available", "in-use"]).await
    }

    /// From now on it may hold data. Noted before a server gets it. A volume that Kiln did not create says nothing of its use.
    pub(super) async fn note_use(&self, id: &str) -> Result<()> {
        if !is_unused(&self.volume(id).await?.metadata) {
            return Ok(());
        }
        self.label_volume(id, &Labels::from([(labels::USED.into(), labels::USED_YES.into())])).await
    }

    /// Cinder merges what is sent so.
    pub(super) async fn label_volume(&self, id: &str, labels: &Labels) -> Result<()> {
        let path = format!("/volumes/{}/metadata", checked("volume", id)?);
        let body = json!({ "metadata": labels });
        self.client.request(Cinder, Method::POST, &path, Some(&body)).retried().await.map(drop)
    }

    async fn volume(&self, id: &str) -> Result<WireVolume> {
        let path = format!("/volumes/{}", checked("volume", id)?);
        missing(self.client.get(Cinder, &path, "volume").await, "volume", id)
    }

    pub(super) async fn wait_volume(&self, id: &str, wanted: &[&str]) -> Result<Volume> {
        until(
            PACE,
            LIMIT,
            || format!("volume {id} is not {}", wanted[0]),
            || async {
                let volume = self.volume(id).await?;
                if volume.status.starts_with("error") {
                    let name = volume.name.unwrap_or_default();
                    return Err(Error::failed(format!("volume {name}: the cloud could not make it")));
                }
                Ok(wanted.contains(&volume.status.as_str()).then(|| volume.volume()))
            },
        )
        .await
    }

    /// Where servers have it, Nova tells them. Cinder refuses that where its driver cannot do it; its words say so.
    pub async fn grow_volume(&self, id: &str, size_gib: u64) -> Result<Volume> {
        let there = self.volume(id).await?;
        let name = there.name.clone().unwrap_or_default();
        if there.size < size_gib && there.status != "extending" {
            let path = format!("/volumes/{}/action", checked("volume", id)?);
            let body = json!({ "os-extend": { "new_size": size_gib } });
            if let Err(mut error) =
                self.client.request(Cinder, Method::POST, &path, Some(&body)).retried().await
            {
                // The answer to an earlier attempt may have got lost. Cinder refuses another one in several ways.
                let now = self.volume(id).await?;
                if now.size < size_gib && now.status != "extending" {
                    error.message = format!("volume {name}: {}", error.message);
                    return Err(error);
                }
            }
        }
        until(
            PACE,
            LIMIT,
            || format!("volume {name} is not extended to {size_gib} GiB"),
            || async {
                let volume = self.volume(id).await?;
                if volume.status.starts_with("error") {
                    return Err(Error::failed(format!("volume {name}: the cloud could not extend it")));
                }
                let settled = ["available", "in-use"].contains(&volume.status.as_str());
                Ok((settled && volume.size >= size_gib).then(|| volume.volume()))
            },
        )
        .await
    }

    pub async fn delete_volume(&self, id: &str) -> Result<()> {
        let volume = match self.volume(id).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        let name = volume.name.clone().unwrap_or_default();
        if cluster_of(&volume.metadata).is_none() {
            return Err(Error::conflict(format!("volume {name} ({id}) is not Kiln's")));
        }
        // It is let go of a moment after its server is gone.
        let path = format!("/volumes/{id}");
        let is_free = |status: &str| ["available", "error", "error_deleting"].contains(&status);
        let refusal = &Mutex::new(None);
        until(
            PACE,
            LIMIT,
            || match refusal.lock() {
                Ok(mut refusal) => refusal.take().unwrap_or_else(|| format!("volume {name} is still in use")),
                Err(_) => format!("volume {name} is still in use"),
            },
            || async {
                match self.volume(id).await {
                    Err(error) if error.is_not_found() => Ok(Some(())),
                    Err(error) => Err(error),
                    Ok(volume) if is_free(&volume.status) => match self.client.delete(Cinder, &path).await {
                        Ok(()) => Ok(None),
                        Err(Error { class: Class::Conflict | Class::Refused, message: why, .. }) => {
                            self.check_snapshots(id, &name).await?;
                            if let Ok(mut refusal) = refusal.lock() {
                                *refusal = Some(format!("volume {name}: {why}"));
                            }
                            Ok(None)
                        }
                        Err(error) => Err(error),
                    },
                    Ok(_) => Ok(None),
                }
            },
        )
        .await
    }
}

/// Whether it belongs to the build of an image, and holds nothing of a cluster's.
fn of_build(labels: &Labels) -> bool {
    labels.get(labels::ROLE).is_some_and(|role| role == labels::BUILD_ROLE)
}
