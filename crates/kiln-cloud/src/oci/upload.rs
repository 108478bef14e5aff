//! Images from files: the disk becomes an object, in parts, and Oracle imports that.

use std::path::Path;

use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::client::Call;
use super::driver::Driver;
use super::images::UNFINISHED;
use super::objects::Object;
use super::region::Service::{Core, Objects};
use super::wire::WireImage;
use crate::remote::{bounded, encode};
use crate::{Class, Error, Image, NewImage, Result};

/// What a disk in this format begins with.
const QCOW2: [u8; 4] = *b"QFI\xfb";
/// In bytes. Oracle takes ten thousand parts.
const PART: u64 = if cfg!(test) { 1000 } else { 32 * 1024 * 1024 };
/// Parts that are under way, and in memory, at a time.
const AT_ONCE: usize = 3;
/// The value of [`UNFINISHED`]; no cluster can have this name.
const BY_UPLOAD: &str = "(upload)";
/// On an image: the digest of the file that it was made of.
const DIGEST: &str = "kiln_upload";
/// Objects that are disks on their way begin so.
pub(super) const UPLOADS: &str = "uploads/";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Multipart {
    pub object: String,
    pub upload_id: String,
    pub time_created: jiff::Timestamp,
}

impl Driver {
    /// An image of this name that was made of the same file is returned as it is.
    pub async fn upload_image(&self, new: NewImage, file: &Path) -> Result<Image> {
        if new.properties.get("hw_firmware_type").is_some_and(|firmware| firmware == "uefi") {
            return Err(Error::unsupported("Oracle's API imports no disks that need UEFI")
                .with_hint("import it with Oracle's console, or upload a disk that boots with a BIOS"));
        }
        let (length, digest) = examine(file).await?;
        if let Some(there) = self.uploaded(&new, &digest).await? {
            return Ok(there);
        }
        self.ensure_bucket().await?;
        let object = format!("{UPLOADS}{digest}");
        let made = match self.upload_object(&object, file, length).await {
            Ok(()) => self.import(&new, &object, &digest).await,
            Err(error) => Err(error),
        };
        // Of no use any more, whatever came of it.
        let cleared = self.clear_upload(&object).await;
        let image = made?;
        cleared?;
        Ok(image)
    }

    /// The object, and uploads of it: those of earlier runs, and those that were begun without an answer.
    async fn clear_upload(&self, object: &str) -> Result<()> {
        for upload in self.multiparts().await?.iter().filter(|upload| upload.object == object) {
            self.abort(upload).await?;
        }
        self.delete_object(object).await
    }

    /// What an earlier run has left half made is removed.
    async fn uploaded(&self, new: &NewImage, digest: &str) -> Result<Option<Image>> {
        let path = format!("{}&displayName={}", self.in_compartment("images"), encode(&new.name));
        let all: Vec<WireImage> = self.client.list(Core, &path).await?;
        for image in all.into_iter().filter(|image| image.lifecycle_state != "DELETED") {
            if image.freeform_tags.get(UNFINISHED).is_some_and(|by| by == BY_UPLOAD) {
                self.delete_image(&image.id).await?;
                continue;
            }
            let there = self.image(&image.id).await?;
            if there.properties.get(DIGEST).is_some_and(|of| of == digest) {
                return Ok(Some(there));
            }
            return Err(Error::conflict(format!("image {} exists already, with other content", new.name))
                .with_hint("give the new one another name, or delete the old one"));
        }
        Ok(None)
    }

    async fn import(&self, new: &NewImage, object: &str, digest: &str) -> Result<Image> {
        let body = json!({
            "compartmentId": self.settings.compartment,
            "displayName": new.name,
            "freeformTags": { UNFINISHED: BY_UPLOAD },
            "launchMode": "PARAVIRTUALIZED",
            "imageSourceDetails": {
                "sourceType": "objectStorageTuple",
                "namespaceName": self.namespace().await?,
                "bucketName": self.bucket(),
                "objectName": object,
                "sourceImageType": "QCOW2",
            },
        });
        let call = Call::post(Core, "/images", &body).once_only();
        let made: WireImage = self.client.send(&call).await?.read("an image")?;
        let mut new = new.clone();
        new.properties.insert(DIGEST.into(), digest.into());
        self.finish_image(&made.id, &new, async {
            let is_arm = new.properties.get("architecture").is_some_and(|name| name == "aarch64");
            self.fit_shapes(&made.id, is_arm).await
        })
        .await
    }

    /// An imported image goes with few shapes until Oracle is told of others. Those that it refuses to boot from such a disk
    /// stay as they are.
    async fn fit_shapes(&self, image: &str, is_arm: bool) -> Result<()> {
        let names = self.shapes_for(is_arm).await?;
        let told = bounded(names, |shape: String| async move {
            let (path, body) = (format!("/images/{image}/shapes/{}", encode(&shape)), json!({}));
            match self.client.send(&Call::put(Core, path, &body)).await {
                Err(error) if [Class::Refused, Class::Conflict].contains(&error.class) => {
                    tracing::debug!(shape, %error, "not for this image");
                    Ok(())
                }
                answer => answer.map(drop),
            }
        });
        told.await.into_iter().collect()
    }

    async fn upload_object(&self, object: &str, file: &Path, length: u64) -> Result<()> {
        let bucket = self.bucket_path().await?;
        let body = json!({ "object": object });
        let upload: Multipart =
            self.client.send(&Call::post(Objects, format!("{bucket}/u"), &body)).await?.read("an upload")?;
        let path = format!("{bucket}/u/{}?uploadId={}", encode(object), encode(&upload.upload_id));
        let all: Vec<_> = (0..length.div_ceil(PART)).map(|part| self.send_part(&path, file, part)).collect();
        let sent: Vec<Result<Value>> = stream::iter(all).buffered(AT_ONCE).collect().await;
        let committed = match sent.into_iter().collect::<Result<Vec<Value>>>() {
            Ok(parts) => {
                let body = json!({ "partsToCommit": parts });
                self.client.send(&Call::post(Objects, path, &body)).await.map(drop)
            }
            Err(error) => Err(error),
        };
        let Err(error) = committed else { return Ok(()) };
        // The answer to an earlier attempt may have got lost.
        let is_it = |there: &Object| there.name == object && there.size == Some(length);
        if self.objects(object).await?.iter().any(is_it) {
            return Ok(());
        }
        Err(error)
    }

    /// That were begun and not ended.
    pub(super) async fn multiparts(&self) -> Result<Vec<Multipart>> {
        let path = format!("{}/u", self.bucket_path().await?);
        match self.client.list(Objects, &path).await {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            other => other,
        }
    }

    pub(super) async fn abort(&self, upload: &Multipart) -> Result<()> {
        let (object, id) = (encode(&upload.object), encode(&upload.upload_id));
        let bucket = self.bucket_path().await?;
        self.client.delete(Objects, &format!("{bucket}/u/{object}?uploadId={id}")).await
    }

    /// Returns what commits it.
    async fn send_part(&self, path: &str, file: &Path, index: u64) -> Result<Value> {
        let bytes = read_part(file, index).await.map_err(|e| unreadable(file, e))?;
        let number = index + 1;
        let call = Call::put_bytes(Objects, format!("{path}&uploadPartNum={number}"), &bytes);
        let answer = self.client.send(&call).await?;
        let none = || Error::failed(format!("part {number} of the upload has no etag"));
        Ok(json!({ "partNum": number, "etag": answer.etag.ok_or_else(none)? }))
    }
}

async fn read_part(file: &Path, index: u64) -> std::io::Result<Vec<u8>> {
    let mut content = tokio::fs::File::open(file).await?;
    content.seek(std::io::SeekFrom::Start(index * PART)).await?;
    let mut bytes = Vec::new();
    content.take(PART).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// Before anything is made: that Oracle can read it, its length and its digest.
async fn examine(file: &Path) -> Result<(u64, String)> {
    let mut content = tokio::fs::File::open(file).await.map_err(|e| unreadable(file, e))?;
    let mut start = Vec::new();
    (&mut content).take(4).read_to_end(&mut start).await.map_err(|e| unreadable(file, e))?;
    if start != QCOW2 {
        let problem = format!("Oracle imports disks in qcow2, and {} is none", file.display());
        return Err(Error::refused(problem).with_hint("`qemu-img convert -O qcow2` makes one"));
    }
    let (mut digest, mut length, mut block) = (Sha256::new_with_prefix(&start), 4, vec![0; 1 << 20]);
    loop {
        let count = content.read(&mut block).await.map_err(|e| unreadable(file, e))?;
        if count == 0 {
            return Ok((length, hex::encode(digest.finalize())));
        }
        digest.update(&block[..count]);
        length += count as u64;
    }
}

fn unreadable(file: &Path, error: std::io::Error) -> Error {
    Error::refused(format!("{} cannot be read", file.display())).because(error)
}
