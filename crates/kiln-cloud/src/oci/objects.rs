//! Object storage: where properties of images are that are too long for tags, and disks on their way to become images.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::client::{Call, encode};
use super::driver::Driver;
use super::region::Service::Objects;
use crate::{Error, Result};

impl Driver {
    /// Of the tenancy.
    async fn namespace(&self) -> Result<&str> {
        let find = || async { self.client.get::<String>(Objects, "/n").await };
        self.known.namespace.get_or_try_init(find).await.map(String::as_str)
    }

    /// Names of buckets are the tenancy's own; each compartment has one for Kiln.
    fn bucket(&self) -> String {
        let digest = hex::encode(Sha256::digest(&self.settings.compartment));
        format!("kiln-{}", &digest[..16])
    }

    async fn path(&self, object: &str) -> Result<String> {
        Ok(format!("/n/{}/b/{}/o/{}", encode(self.namespace().await?), self.bucket(), encode(object)))
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

    /// With the last object the bucket goes, too.
    pub(super) async fn delete_properties(&self, image: &str) -> Result<()> {
        self.known.properties.lock().await.remove(image);
        let path = self.path(&object_of(image)).await?;
        self.client.delete(Objects, &path).await?;
        let bucket = format!("/n/{}/b/{}", encode(self.namespace().await?), self.bucket());
        match self.client.delete(Objects, &bucket).await {
            Err(error) if error.is_conflict() => Ok(()),
            answer => answer,
        }
    }

    async fn ensure_bucket(&self) -> Result<()> {
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
    format!("properties/{image}")
}
