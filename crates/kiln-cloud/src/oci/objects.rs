//! Object storage: where properties of images are that are too long for tags, and disks on their way to become images.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::client::Call;
use super::driver::Driver;
use super::region::Service::Objects;
use crate::remote::encode;
use crate::{Error, Result};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object {
    pub name: String,
    #[serde(default)]
    pub size: Option<u64>,
    #[serde(default)]
    pub time_created: Option<jiff::Timestamp>,
}

/// Objects that are properties of images begin so; the rest is the image's id.
pub(super) const PROPERTIES: &str = "properties/";

impl Driver {
    /// Of the tenancy.
    pub(super) async fn namespace(&self) -> Result<&str> {
        let find = || async { self.client.get::<String>(Objects, "/n").await };
        self.known.namespace.get_or_try_init(find).await.map(String::as_str)
    }

    /// Names of buckets are the tenancy's own; each compartment has one for Kiln.
    pub(super) fn bucket(&self) -> String {
        let digest = hex::encode(Sha256::digest(&self.settings.compartment));
        format!("kiln-{}", &digest[..16])
    }

    pub(super) async fn bucket_path(&self) -> Result<String> {
        Ok(format!("/n/{}/b/{}", encode(self.namespace().await?), self.bucket()))
    }

    async fn path(&self, object: &str) -> Result<String> {
        Ok(format!("{}/o/{}", self.bucket_path().await?, encode(object)))
    }

    /// All whose names begin so. None, where there is no bucket.
    pub(super) async fn objects(&self, prefix: &str) -> Result<Vec<Object>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Listing {
            objects: Vec<Object>,
            #[serde(default)]
            next_start_with: Option<String>,
        }
        let path = format!("{}/o?fields=name,size,timeCreated", self.bucket_path().await?);
        let path = format!("{path}&prefix={}", encode(prefix));
        let (mut all, mut page) = (Vec::new(), String::new());
        loop {
            let listing: Listing = match self.client.get(Objects, &format!("{path}{page}")).await {
                Err(error) if error.is_not_found() => return Ok(all),
                other => other?,
            };
            all.extend(listing.objects);
            match listing.next_start_with {
                Some(next) => page = format!("&start={}", encode(&next)),
                None => return Ok(all),
            }
        }
    }

    pub(super) async fn put_properties(&self, image: &str, all: &BTreeMap<String, String>) -> Result<()> {
        self.ensure_bucket().await?;
        let text = json!(all).to_string();
        let path = self.path(&object_of(image)).await?;
        self.client.send(&Call::put_bytes(Objects, path, text.as_bytes())).await?;
        self.known.properties.lock().await.insert(image.to_string(), all.clone());
        Ok(())
    }

    /// None, if there is no such object.
    pub(super) async fn properties(&self, image: &str) -> Result<BTreeMap<String, String>> {
        if let Some(known) = self.known.properties.lock().await.get(image) {
            return Ok(known.clone());
        }
        let path = self.path(&object_of(image)).await?;
        let all: BTreeMap<String, String> = match self.client.send(&Call::get(Objects, path)).await {
            Err(error) if error.is_not_found() => BTreeMap::new(),
            answer => answer?.read("an image's properties")?,
        };
        self.known.properties.lock().await.insert(image.to_string(), all.clone());
        Ok(all)
    }

    pub(super) async fn delete_properties(&self, image: &str) -> Result<()> {
        self.known.properties.lock().await.remove(image);
        self.delete_object(&object_of(image)).await
    }

    /// With the last object the bucket goes, too.
    pub(super) async fn delete_object(&self, object: &str) -> Result<()> {
        let path = self.path(object).await?;
        self.client.delete(Objects, &path).await?;
        self.delete_empty_bucket().await
    }

    pub(super) async fn delete_empty_bucket(&self) -> Result<()> {
        match self.client.delete(Objects, &self.bucket_path().await?).await {
            Err(error) if error.is_conflict() => Ok(()),
            answer => answer,
        }
    }

    pub(super) async fn ensure_bucket(&self) -> Result<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Bucket {
            compartment_id: String,
        }
        let namespace = encode(self.namespace().await?);
        let body = json!({
            "name": self.bucket(),
            "compartmentId": self.settings.compartment,
            "publicAccessType": "NoPublicAccess",
        });
        match self.client.send(&Call::post(Objects, format!("/n/{namespace}/b"), &body)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        let there: Bucket = self.client.get(Objects, &format!("/n/{namespace}/b/{}", self.bucket())).await?;
        if there.compartment_id == self.settings.compartment {
            return Ok(());
        }
        Err(Error::conflict(format!("bucket {} exists already, in another compartment", self.bucket())))
    }
}

fn object_of(image: &str) -> String {
    format!("{PROPERTIES}{image}")
}
