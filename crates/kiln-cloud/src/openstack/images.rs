//! Images: listed, uploaded, and made from a server's root disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::client::take;
use super::driver::{Driver, PACE, checked, missing};
use super::labels::cluster_of;
use super::parts;
use super::session::Service::{Compute, Image as Glance, Volume as Cinder};
use super::wire::{Id, Port};
use crate::remote::{encode, until};
use crate::retry::{Policy, retry};
use crate::{Class, Error, Image, Instance, Labels, NewImage, Result};
use kiln_wire::labels;

const LIMIT: Duration = Duration::from_secs(3600);
/// How a disk in this format begins; any other is taken as it is.
const QCOW2: [u8; 4] = *b"QFI\xfb";
/// What makes an image Kiln's.
const OWN: &str = "kiln_";

#[derive(Debug, Deserialize)]
struct WireImage {
    id: String,
    #[serde(default)]
    name: Option<String>,
    status: String,
    #[serde(default)]
    size: Option<u64>,
    created_at: Timestamp,
    /// Properties stand beside everything else.
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl WireImage {
    fn image(self) -> Image {
        let own = self.rest.into_iter().filter(|(key, _)| key.starts_with(OWN));
        let own = own.filter_map(|(key, value)| Some((key, value.as_str()?.to_string())));
        let own = parts::join(own.collect());
        let is_label = |key: &str| [labels::CLUSTER, labels::ROLE].contains(&key);
        let (labels, properties): (Labels, BTreeMap<_, _>) =
            own.into_iter().partition(|(key, _)| is_label(key));
        Image {
            id: self.id,
            name: self.name.unwrap_or_default(),
            labels,
            properties,
            size_bytes: self.size.unwrap_or(0),
            created: self.created_at,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.rest.get(key).and_then(Value::as_str)
    }

    fn is_elsewhere(&self, project: &str) -> bool {
        self.text("owner").is_some_and(|owner| owner != project)
    }

    fn is_own(&self) -> bool {
        self.rest.keys().any(|key| key.starts_with(OWN))
    }

    /// Left by a build of this cluster that was cut off.
    fn is_unfinished_of(&self, cluster: &str) -> bool {
        self.rest.get(OWN_MARK).is_some_and(|mark| *mark == mark_of(cluster))
            && self.rest.values().any(|value| value == UNFINISHED)
    }
}

impl Driver {
    /// Those that can be booted, in the order of their creation.
    pub async fn images(&self) -> Result<Vec<Image>> {
        let all = self.usable("/images?status=active").await?;
        let mut all: Vec<Image> = all.into_iter().map(WireImage::image).collect();
        all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(all)
    }

    /// Those of this project, and those that others let it use. An administrator of the cloud is shown all there are.
    async fn usable(&self, path: &str) -> Result<Vec<WireImage>> {
        let all: Vec<WireImage> = self.client.list(Glance, path, "images").await?;
        if !self.client.is_admin().await? {
            return Ok(all);
        }
        let project = self.client.project().await?;
        let is_for_all = |image: &WireImage| matches!(image.text("visibility"), Some("public" | "community"));
        let (mut usable, others): (Vec<WireImage>, Vec<WireImage>) =
            all.into_iter().partition(|image| !image.is_elsewhere(&project) || is_for_all(image));
        let names: BTreeSet<Option<String>> = usable.iter().map(|image| image.name.clone()).collect();
        for image in others.into_iter().filter(|image| image.text("visibility") == Some("shared")) {
            // There may be thousands: only of those that would pass for another it is asked whether they are shared with this project.
            let is_doubtful = image.is_own() || names.contains(&image.name) || path.contains("name=");
            if !is_doubtful || self.is_member(&image.id, &project).await? {
                usable.push(image);
            }
        }
        Ok(usable)
    }

    /// Whether the project has accepted an image that its owner shares.
    async fn is_member(&self, image: &str, project: &str) -> Result<bool> {
        let path = format!("/images/{}/members/{}", checked("image", image)?, encode(project));
        match self.client.request(Glance, Method::GET, &path, None).retried().await {
            Ok(member) => Ok(member.is_some_and(|member| member["status"] == "accepted")),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// One of another project can only be used.
    async fn check_ours(&self, image: &WireImage) -> Result<()> {
        if !image.is_elsewhere(&self.client.project().await?) {
            return Ok(());
        }
        let name = image.name.as_deref().unwrap_or_default();
        Err(Error::conflict(format!("image {name} ({}) belongs to another project", image.id)))
    }

    pub async fn image(&self, id: &str) -> Result<Image> {
        self.wire_image(id).await.map(WireImage::image)
    }

    async fn wire_image(&self, id: &str) -> Result<WireImage> {
        let path = format!("/images/{}", checked("image", id)?);
        let answer = self.client.request(Glance, Method::GET, &path, None).retried().await;
        let answer = missing(answer, "image", id)?.unwrap_or_default();
        serde_json::from_value(answer)
            .map_err(|_| Error::failed(format!("what the cloud says about image {id} cannot be read")))
    }

    /// By id or by name; the newest of a name.
    pub async fn find_image(&self, name: &str) -> Result<Image> {
        let none = || Error::not_found("image", name.to_string());
        let path = format!("/images?status=active&name={}", encode(name));
        let named = self.usable(&path).await?;
        if let Some(newest) = named.into_iter().max_by_key(|i| i.created_at) {
            return Ok(newest.image());
        }
        match self.image(name).await {
            Err(error) if error.is_not_found() || error.class == Class::Refused => Err(none()),
            other => other,
        }
    }

    pub async fn delete_image(&self, id: &str) -> Result<()> {
        let image = match self.wire_image(id).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if !image.is_own() {
            let name = image.name.unwrap_or_default();
            return Err(Error::conflict(format!("image {name} ({id}) is not Kiln's")));
        }
        self.check_ours(&image).await?;
        self.client.delete(Glance, &format!("/images/{id}")).await
    }

    pub async fn create_image(
        &self,
        instance: &str,
        new: NewImage,
        copied: &(dyn Fn() + Sync),
    ) -> Result<Image> {
        let server = self.instance(instance).await?;
        let marks = marks(cluster_of(&server.labels).unwrap_or_default(), &new);
        let image = match self.root_volume(instance).await? {
            None => self.snapshot(instance, &new, &marks).await?,
            Some(volume) => self.upload_volume(&server, &volume, &new, &marks).await?,
        };
        let finished = async {
            let made = self.wait_image(&image, &new.name).await?;
            copied();
            // Nova takes no value above 255 characters, so they are set here.
            self.set_properties(&made, &new).await?;
            self.image(&image).await
        };
        match finished.await {
            Ok(image) => Ok(image),
            Err(error) => {
                // Of no use to anybody; should this fail, too, the next build finds it by its mark.
                let _ = self.client.delete(Glance, &format!("/images/{image}")).await;
                Err(error)
            }
        }
    }

    /// What builds of the cluster that were cut off have left: images, ports, snapshots of root disks and copies of them.
    pub async fn clear_build(&self, cluster: &str) -> Result<()> {
        let images: Vec<WireImage> =
            self.client.list_own(Glance, "/images?visibility=private", "images").await?;
        for image in images.iter().filter(|image| image.is_unfinished_of(cluster)) {
            self.client.delete(Glance, &format!("/images/{}", image.id)).await?;
        }
        // Of a server that was not made, or could not be built: Nova takes it back from that.
        let unused = |port: &Port| port.device_id.is_empty() && port.name == format!("{cluster}-build");
        for port in self.ports(cluster).await?.iter().filter(|port| unused(port)) {
            self.delete_port(port).await?;
        }
        self.clear_build_volumes(cluster).await
    }

    /// Of a server whose root disk is on the hypervisor.
    async fn snapshot(&self, instance: &str, new: &NewImage, marks: &Labels) -> Result<String> {
        let path = format!("/servers/{}/action", checked("instance", instance)?);
        let body = json!({ "createImage": { "name": new.name, "metadata": marks } });
        let (path, body) = (&path, &body);
        retry(&Policy::REMOTE, |attempt| async move {
            if attempt > 0
                && let Some(there) = self.own_image(&new.name).await?
            {
                return Ok(there);
            }
            match self.client.request(Compute, Method::POST, path, Some(body)).once().await {
                Ok(answer) => {
                    Ok(answer.and_then(|a| Some(a["image_id"].as_str()?.to_string())).unwrap_or_default())
                }
                // It is being made: by an earlier attempt.
                Err(error) if error.is_conflict() && attempt > 0 => {
                    self.own_image(&new.name).await?.ok_or(error.sorted(Class::Unanswered))
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// One that this very build made, ready or not.
    async fn own_image(&self, name: &str) -> Result<Option<String>> {
        let path = format!("/images?name={}", encode(name));
        let found: Vec<WireImage> = self.client.list_own(Glance, &path, "images").await?;
        Ok(found.into_iter().find(WireImage::is_own).map(|i| i.id))
    }

    /// A root volume cannot be copied while it is a server's: what is copied is a volume made from a snapshot of it.
    async fn upload_volume(
        &self,
        server: &Instance,
        volume: &str,
        new: &NewImage,
        marks: &Labels,
    ) -> Result<String> {
        let labels = &server.labels;
        // Nova made it without labels. While it has a snapshot it would outlive its server.
        let body = json!({ "volume": { "name": server.name, "metadata": labels } });
        self.client
            .request(Cinder, Method::PUT, &format!("/volumes/{volume}"), Some(&body))
            .retried()
            .await?;
        let snapshot = self.snapshot_volume(labels, volume, &new.name).await?;
        let body = json!({ "volume": {
            "name": new.name, "snapshot_id": snapshot, "metadata": labels,
        }});
        let copied = async {
            let copy = self.make_volume(&new.name, labels, &body).await?;
            let uploaded = self.upload_copy(&copy.id, &new.name, marks).await;
            self.delete_volume(&copy.id).await?;
            uploaded
        };
        let image = copied.await;
        self.delete_snapshot(&snapshot).await?;
        image
    }

    async fn snapshot_volume(&self, labels: &Labels, volume: &str, name: &str) -> Result<String> {
        #[derive(Deserialize)]
        struct Snapshot {
            id: String,
            status: String,
        }
        let body = &json!({ "snapshot": {
            "name": name, "volume_id": volume, "force": true, "metadata": labels,
        }});
        let path = &format!("/snapshots/detail?volume_id={}&name={}", encode(volume), encode(name));
        let id = retry(&Policy::REMOTE, |_| async move {
            let there: Vec<Snapshot> = self.client.list(Cinder, path, "snapshots").await?;
            if let Some(there) = there.into_iter().next() {
                return Ok(there.id);
            }
            let answer = self.client.request(Cinder, Method::POST, "/snapshots", Some(body)).once().await?;
            take::<Id>(answer, "snapshot", "/snapshots").map(|s| s.id)
        })
        .await?;
        let path = format!("/snapshots/{id}");
        until(
            PACE,
            LIMIT,
            || format!("snapshot {name} is not ready"),
            || async {
                let snapshot: Snapshot = self.client.get(Cinder, &path, "snapshot").await?;
                match snapshot.status.as_str() {
                    "available" => Ok(Some(())),
                    "error" => Err(Error::failed(format!("snapshot {name}: the cloud could not make it"))),
                    _ => Ok(None),
                }
            },
        )
        .await?;
        Ok(id)
    }

    async fn upload_copy(&self, volume: &str, name: &str, marks: &Labels) -> Result<String> {
        let path = &format!("/volumes/{volume}/action");
        // What is said of the volume's image becomes the new image's properties.
        let body = json!({ "os-set_image_metadata": { "metadata": marks } });
        self.client.request(Cinder, Method::POST, path, Some(&body)).retried().await?;
        let body = &json!({ "os-volume_upload_image": {
            "image_name": name, "disk_format": "raw", "container_format": "bare", "force": false,
        }});
        let image = retry(&Policy::REMOTE, |attempt| async move {
            if attempt > 0 {
                let path = format!("/images?name={}", encode(name));
                let found: Vec<WireImage> = self.client.list_own(Glance, &path, "images").await?;
                if let Some(there) = found.into_iter().next() {
                    return Ok(there.id);
                }
            }
            let answer = self.client.request(Cinder, Method::POST, path, Some(body)).once().await?;
            let id = answer.and_then(|a| Some(a["os-volume_upload_image"]["image_id"].as_str()?.to_string()));
            id.ok_or_else(|| Error::failed(format!("volume {volume}: no image was made")))
        })
        .await?;
        self.wait_image(&image, name).await?;
        self.wait_volume(volume, &["available"]).await?;
        Ok(image)
    }

    async fn wait_image(&self, id: &str, name: &str) -> Result<WireImage> {
        until(
            PACE,
            LIMIT,
            || format!("image {name} is not ready"),
            || async {
                let image = match self.wire_image(id).await {
                    Err(error) if error.is_not_found() => {
                        return Err(Error::failed(format!("image {name}: the cloud could not make it")));
                    }
                    other => other?,
                };
                match image.status.as_str() {
                    "active" => Ok(Some(image)),
                    "killed" | "deleted" | "pending_delete" => {
                        Err(Error::failed(format!("image {name}: the cloud could not make it")))
                    }
                    _ => Ok(None),
                }
            },
        )
        .await
    }

    async fn set_properties(&self, image: &WireImage, new: &NewImage) -> Result<()> {
        let all = new.labels.iter().chain(&new.properties);
        let mut wanted: BTreeMap<String, &str> =
            all.flat_map(|(key, value)| parts::split(key, value)).collect();
        // What the image has of a longer value, because the one it was made from had it.
        for key in image.rest.keys().filter(|key| parts::is_further(key)) {
            wanted.entry(key.clone()).or_default();
        }
        self.patch(&image.id, wanted).await
    }

    /// To those that an image has.
    pub async fn add_properties(&self, id: &str, new: &Labels) -> Result<()> {
        let wanted = new.iter().flat_map(|(key, value)| parts::split(key, value)).collect();
        self.patch(checked("image", id)?, wanted).await
    }

    async fn patch(&self, id: &str, wanted: BTreeMap<String, &str>) -> Result<()> {
        let change = |(key, value): (String, &str)| {
            // What every image has is replaced; the rest is added, or replaced where it is there.
            let op = if is_attribute(&key) { "replace" } else { "add" };
            json!({ "op": op, "path": format!("/{key}"), "value": attribute(&key, value) })
        };
        // Last: others are to see the image when it is whole.
        let (last, first): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(key, _)| key == "visibility");
        let changes = Value::Array(first.into_iter().chain(last).map(change).collect());
        let path = format!("/images/{id}");
        let answer = self.client.request(Glance, Method::PATCH, &path, Some(&changes)).retried().await;
        missing(answer, "image", id).map(drop)
    }

    /// In place of what the file has.
    pub async fn download_image(&self, id: &str, to: &File) -> Result<()> {
        let image = self.wire_image(id).await?;
        let name = &image.name.unwrap_or_default();
        // Nova makes such images of servers whose root disk is a volume.
        let Some(size) = image.size.filter(|size| *size > 0) else {
            return Err(Error::unsupported(format!("image {name} has no disk of its own")));
        };
        let path = &format!("/images/{}/file", image.id);
        retry(&Policy::REMOTE, |_| async move {
            let length = self.client.receive_file(Glance, path, to).await?;
            if length != size {
                return Err(Error::unanswered(format!("image {name}: {length} of {size} bytes came")));
            }
            Ok(())
        })
        .await
    }

    /// The id of the root volume, if the root disk is one.
    async fn root_volume(&self, instance: &str) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct Attachment {
            #[serde(rename = "volumeId")]
            volume: String,
            #[serde(default)]
            device: Option<String>,
        }
        let server: super::wire::Server = self
            .client
            .get(Compute, &format!("/servers/{}", checked("instance", instance)?), "server")
            .await?;
        if !server.is_on_volume() {
            return Ok(None);
        }
        let path = format!("/servers/{instance}/os-volume_attachments");
        let mut all: Vec<Attachment> = self.client.get(Compute, &path, "volumeAttachments").await?;
        // /dev/vda, /dev/sda, ...: the first.
        all.sort_by(|a, b| a.device.cmp(&b.device));
        let first = all.into_iter().next().map(|a| a.volume);
        first.map(Some).ok_or_else(|| Error::failed(format!("{} has no root disk", server.name)))
    }

    /// The content of a file as an image. An image of this name that Kiln made before is returned as it is.
    pub async fn upload_image(&self, new: NewImage, file: &Path) -> Result<Image> {
        let read =
            |e: std::io::Error| Error::refused(format!("{} cannot be read", file.display())).because(e);
        // Before anything is made.
        let mut start = [0; 4];
        let mut content = tokio::fs::File::open(file).await.map_err(read)?;
        content.read_exact(&mut start).await.map_err(read)?;
        let length = content.metadata().await.map_err(read)?.len();
        let format = if start == QCOW2 { "qcow2" } else { "raw" };
        let mut body = json!({
            "name": new.name, "disk_format": format, "container_format": "bare", OWN_MARK: "upload",
        });
        for (key, value) in new.labels.iter().chain(&new.properties) {
            for (key, part) in parts::split(key, value) {
                body[&key] = attribute(&key, part);
            }
        }
        let (body, name) = (&body, new.name.as_str());
        let image = retry(&Policy::REMOTE, |_| async move {
            if let Some(there) = self.own_image(name).await? {
                return self.wire_image(&there).await;
            }
            let answer = self.client.request(Glance, Method::POST, "/images", Some(body)).once().await?;
            serde_json::from_value(answer.unwrap_or_default())
                .map_err(|_| Error::failed("what the cloud says about the new image cannot be read"))
        })
        .await?;
        if image.status == "active" {
            let there = image.image();
            let same = |(key, value): (&String, &String)| {
                !key.starts_with(OWN) || there.properties.get(key) == Some(value)
            };
            if there.size_bytes == length && new.properties.iter().all(same) {
                return Ok(there);
            }
            return Err(Error::conflict(format!("image {name} exists already, with other content"))
                .with_hint("give the new one another name, or delete the old one"));
        }
        let path = format!("/images/{}/file", image.id);
        let sent = retry(&Policy::REMOTE, |_| async {
            match self.client.send_file(Glance, &path, file).await {
                // An earlier attempt got through, though its answer did not.
                Err(Error { class: Class::Conflict, .. })
                    if self.wire_image(&image.id).await?.status == "active" =>
                {
                    Ok(())
                }
                other => other,
            }
        })
        .await;
        if let Err(error) = sent {
            let _ = self.client.delete(Glance, &format!("/images/{}", image.id)).await;
            return Err(error);
        }
        self.image(&image.id).await
    }
}

/// Of every image, not only of those that were given it.
fn is_attribute(name: &str) -> bool {
    ["min_disk", "min_ram", "visibility"].contains(&name)
}

/// All of an image's attributes and properties are text, except for these.
fn attribute(name: &str, value: &str) -> Value {
    match (name, value.parse::<u64>()) {
        ("min_disk" | "min_ram", Ok(number)) => json!(number),
        _ => json!(value),
    }
}

/// Set from the first moment, so that what a build left half made is known as Kiln's.
const OWN_MARK: &str = "kiln_made_by";
/// In place of every property of Kiln's, until the image is whole. An image made from another one starts with that one's
/// properties, and must not pass for it.
const UNFINISHED: &str = "unfinished";

fn mark_of(cluster: &str) -> String {
    format!("build of {cluster}")
}

fn marks(cluster: &str, new: &NewImage) -> Labels {
    let own = new.properties.keys().filter(|key| key.starts_with(OWN));
    let mut marks: Labels = own.map(|key| (key.clone(), UNFINISHED.to_string())).collect();
    marks.insert(OWN_MARK.into(), mark_of(cluster));
    marks
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
