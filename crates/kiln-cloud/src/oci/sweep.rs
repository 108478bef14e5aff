//! What may be left of a cluster and is in no listing of its own: copies of consoles, boot volumes that nobody has any more,
//! reserved addresses, what exports file systems, compute clusters, and objects of images and uploads that are over.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::driver::{Driver, cluster_of};
use super::objects::PROPERTIES;
use super::region::Service::Core;
use super::upload::UPLOADS;
use super::wire::{Part, State, WireAttachment, WireImage, WireInstance};
use crate::Result;
use crate::remote::encode;

/// An upload that began longer ago is not under way any more.
const LONGEST_UPLOAD: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BootVolume {
    id: String,
    lifecycle_state: String,
    #[serde(default)]
    freeform_tags: crate::Labels,
}

impl Driver {
    pub async fn sweep(&self, cluster: &str) -> Result<()> {
        self.sweep_consoles(cluster).await?;
        self.sweep_boot_volumes(cluster).await?;
        self.sweep_addresses(cluster).await?;
        self.sweep_exports(cluster).await?;
        self.sweep_compute_clusters(cluster).await?;
        self.sweep_objects().await
    }

    async fn sweep_consoles(&self, cluster: &str) -> Result<()> {
        let all: Vec<Part> = self.client.list(Core, &self.in_compartment("instanceConsoleHistories")).await?;
        for left in all.iter().filter(|history| cluster_of(&history.freeform_tags) == Some(cluster)) {
            self.client.delete(Core, &format!("/instanceConsoleHistories/{}", left.id)).await?;
        }
        Ok(())
    }

    /// Boot volumes go with their instances, unless somebody wanted otherwise. They have no tags of Kiln's, but Oracle lists for a
    /// while who had them.
    async fn sweep_boot_volumes(&self, cluster: &str) -> Result<()> {
        let all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
        let gone: BTreeSet<&str> = (all.iter())
            .filter(|i| {
                i.lifecycle_state == State::Terminated && cluster_of(&i.freeform_tags) == Some(cluster)
            })
            .map(|i| i.id.as_str())
            .collect();
        for domain in self.domains().await? {
            let here = format!("&availabilityDomain={}", encode(domain));
            let path = self.in_compartment("bootVolumes") + &here;
            let volumes: Vec<BootVolume> = self.client.list(Core, &path).await?;
            let path = self.in_compartment("bootVolumeAttachments") + &here;
            let attachments: Vec<WireAttachment> = self.client.list(Core, &path).await?;
            for volume in volumes.iter().filter(|volume| volume.lifecycle_state == "AVAILABLE") {
                let of = |a: &&WireAttachment| a.boot_volume_id.as_ref() == Some(&volume.id);
                let is_held = attachments.iter().filter(of).any(WireAttachment::holds);
                let had = attachments.iter().filter(of).any(|a| gone.contains(a.instance_id.as_str()));
                if !is_held && (had || cluster_of(&volume.freeform_tags) == Some(cluster)) {
                    let path = format!("/bootVolumes/{}", volume.id);
                    self.while_busy(|| self.client.delete(Core, &path)).await?;
                }
            }
        }
        Ok(())
    }

    /// Kiln reserves none; those that somebody has reserved for the cluster have its tag.
    async fn sweep_addresses(&self, cluster: &str) -> Result<()> {
        let path = self.in_compartment("publicIps") + "&scope=REGION&lifetime=RESERVED";
        let all: Vec<Part> = self.client.list(Core, &path).await?;
        let own = |part: &&Part| part.is_there() && cluster_of(&part.freeform_tags) == Some(cluster);
        for left in all.iter().filter(own) {
            let path = format!("/publicIps/{}", left.id);
            self.while_busy(|| self.client.delete(Core, &path)).await?;
        }
        Ok(())
    }

    /// Properties of images that are gone, and uploads that were cut off. Images outlive clusters, and so do their properties.
    async fn sweep_objects(&self) -> Result<()> {
        let objects = self.objects("").await?;
        let multiparts = self.multiparts().await?;
        if !objects.is_empty() {
            let images: Vec<WireImage> = self.client.list(Core, &self.in_compartment("images")).await?;
            let there: BTreeSet<&str> = (images.iter())
                .filter(|image| image.lifecycle_state != "DELETED")
                .map(|image| image.id.as_str())
                .collect();
            for object in objects {
                let image = object.name.strip_prefix(PROPERTIES);
                let is_over = image.is_some_and(|image| !there.contains(image))
                    || (object.name.starts_with(UPLOADS) && is_old(object.time_created));
                if is_over {
                    self.delete_object(&object.name).await?;
                }
            }
        }
        for upload in multiparts.iter().filter(|upload| is_old(Some(upload.time_created))) {
            self.abort(upload).await?;
            self.delete_empty_bucket().await?;
        }
        Ok(())
    }
}

fn is_old(since: Option<Timestamp>) -> bool {
    since.is_some_and(|since| since + LONGEST_UPLOAD < Timestamp::now())
}
