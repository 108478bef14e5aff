//! Block volumes. Each lives in one availability domain, and so does whoever uses it.

use std::time::Duration;

use serde_json::json;

use super::client::{Call, retry_token};
use super::driver::{Driver, PACE, checked, cluster_of, missing, not_ours};
use super::file_storage::is_file_system;
use super::region::Service::{Core, Files};
use super::wire::{WireAttachment, WireVolume};
use crate::remote::{encode, until};
use crate::retry::{Policy, retry};
use crate::types::is_unused;
use crate::{Error, Labels, NewVolume, Result, Volume, VolumeStatus};
use kiln_wire::labels;

const LIMIT: Duration = Duration::from_secs(600);
/// Oracle makes none smaller.
const SMALLEST_GIB: u64 = 50;

impl WireVolume {
    fn is_there(&self) -> bool {
        !["TERMINATING", "TERMINATED"].contains(&self.lifecycle_state.as_str())
    }

    fn volume(self, attachments: &[WireAttachment]) -> Volume {
        let status = match self.lifecycle_state.as_str() {
            "FAULTY" => VolumeStatus::Error,
            "AVAILABLE" => VolumeStatus::Usable,
            _ => VolumeStatus::Building,
        };
        let own = attachments.iter().filter(|a| a.holds() && a.volume_id.as_ref() == Some(&self.id));
        Volume {
            attached_to: own.map(|a| a.instance_id.clone()).collect(),
            id: self.id,
            name: self.display_name,
            size_gib: self.size.unwrap_or(0),
            labels: self.freeform_tags,
            status,
            served: None,
        }
    }
}

impl Driver {
    pub async fn volumes(&self, cluster: &str) -> Result<Vec<Volume>> {
        let all: Vec<WireVolume> = self.client.list(Core, &self.in_compartment("volumes")).await?;
        let own = |v: &WireVolume| v.is_there() && cluster_of(&v.freeform_tags) == Some(cluster);
        let all: Vec<WireVolume> = all.into_iter().filter(own).collect();
        let mut attachments: Vec<WireAttachment> = Vec::new();
        if !all.is_empty() {
            attachments = self.client.list(Core, &self.in_compartment("volumeAttachments")).await?;
        }
        let mut all: Vec<Volume> = all.into_iter().map(|v| v.volume(&attachments)).collect();
        all.extend(self.file_systems(cluster).await?);
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    pub async fn volume_by_name(&self, name: &str) -> Result<Option<Volume>> {
        let mut found = self.volumes_named(name).await?;
        if found.len() > 1 {
            return Err(Error::conflict(format!("several volumes are named {name}; Kiln cannot choose")));
        }
        let Some(volume) = found.pop() else { return Ok(None) };
        let path = format!("{}&volumeId={}", self.in_compartment("volumeAttachments"), encode(&volume.id));
        let attachments: Vec<WireAttachment> = self.client.list(Core, &path).await?;
        Ok(Some(volume.volume(&attachments)))
    }

    async fn volumes_named(&self, name: &str) -> Result<Vec<WireVolume>> {
        let path = format!("{}&displayName={}", self.in_compartment("volumes"), encode(name));
        let all: Vec<WireVolume> = self.client.list(Core, &path).await?;
        Ok(all.into_iter().filter(WireVolume::is_there).collect())
    }

    /// Looked for before every attempt. Returns when it can be used.
    pub async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        let body = &json!({
            "compartmentId": self.settings.compartment,
            "availabilityDomain": self.domain(None).await?,
            "displayName": new.name,
            "sizeInGBs": new.size_gib.max(SMALLEST_GIB),
            "freeformTags": new.labels,
        });
        let (new, token) = (&new, &retry_token());
        let id = retry(&Policy::REMOTE, |_| async move {
            for there in self.volumes_named(&new.name).await? {
                if cluster_of(&there.freeform_tags) != cluster_of(&new.labels) {
                    continue;
                }
                if there.lifecycle_state != "FAULTY" {
                    return Ok(there.id);
                }
                // Whatever was planned: it may have been used since.
                let id = there.id.clone();
                if !there.volume(&[]).never_used() {
                    return Err(Error::conflict(format!(
                        "volume {}: the cloud reports an error, and it may hold data; it is not recreated",
                        new.name
                    )));
                }
                self.delete_volume(&id).await?;
            }
            let call = Call::post(Core, "/volumes", body).with_token(token);
            let made: WireVolume = self.client.send_once(&call).await?.read("a volume")?;
            Ok(made.id)
        })
        .await?;
        self.wait_volume(&id, new.size_gib).await
    }

    async fn wait_volume(&self, id: &str, size_gib: u64) -> Result<Volume> {
        until(
            PACE,
            LIMIT,
            || format!("volume {id} is not ready"),
            || async {
                let volume = self.volume(id).await?;
                match volume.lifecycle_state.as_str() {
                    "FAULTY" | "TERMINATED" => Err(Error::failed(format!(
                        "volume {}: the cloud could not make it",
                        volume.display_name
                    ))),
                    "AVAILABLE" if volume.size >= Some(size_gib) => Ok(Some(volume.volume(&[]))),
                    _ => Ok(None),
                }
            },
        )
        .await
    }

    async fn volume(&self, id: &str) -> Result<WireVolume> {
        let path = format!("/volumes/{}", checked("volume", id)?);
        missing(self.client.get(Core, &path).await, "volume", id)
    }

    /// From now on it may hold data. Noted before an instance gets it.
    pub(super) async fn note_use(&self, id: &str) -> Result<()> {
        if !is_unused(&self.volume(id).await?.freeform_tags) {
            return Ok(());
        }
        self.label_volume(id, &Labels::from([(labels::USED.into(), labels::USED_YES.into())])).await
    }

    pub(super) async fn label_volume(&self, id: &str, labels: &Labels) -> Result<()> {
        let id = checked("volume", id)?;
        if is_file_system(id) {
            return self.merge_tags(Files, "file system", &format!("/fileSystems/{id}"), labels).await;
        }
        self.merge_tags(Core, "volume", &format!("/volumes/{id}"), labels).await
    }

    /// Also while an instance has it.
    pub async fn grow_volume(&self, id: &str, size_gib: u64) -> Result<Volume> {
        let there = self.volume(id).await?;
        if there.size < Some(size_gib) {
            let body = json!({ "sizeInGBs": size_gib });
            let path = format!("/volumes/{id}");
            let call = Call::put(Core, path, &body);
            self.while_busy(|| self.client.send(&call))
                .await
                .map_err(|error| error.about(&format!("volume {}", there.display_name)))?;
        }
        self.wait_volume(id, size_gib).await
    }

    /// Returns when it is gone.
    pub async fn delete_volume(&self, id: &str) -> Result<()> {
        if is_file_system(id) {
            return self.delete_file_system(id).await;
        }
        let volume = match self.volume(id).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        let name = volume.display_name.clone();
        if cluster_of(&volume.freeform_tags).is_none() {
            return Err(not_ours("volume", &format!("{name} ({id})")));
        }
        // It is let go of a moment after its instance is gone.
        let path = format!("/volumes/{id}");
        if volume.is_there() {
            self.while_busy(|| self.client.delete(Core, &path)).await?;
        }
        until(
            PACE,
            LIMIT,
            || format!("volume {name} is not gone"),
            || async {
                match self.volume(id).await {
                    Err(error) if error.is_not_found() => Ok(Some(())),
                    Ok(volume) if volume.lifecycle_state == "TERMINATED" => Ok(Some(())),
                    answer => answer.map(|_| None),
                }
            },
        )
        .await
    }
}
