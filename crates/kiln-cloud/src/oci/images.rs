//! Images. Tags hold what is short; the rest of an image's properties is an object.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use serde_json::json;

use super::client::Call;
use super::driver::{Driver, PACE, checked, cluster_of, missing, not_ours};
use super::region::Service::Core;
use super::wire::WireImage;
use crate::remote::{bounded, encode, until};
use crate::{Error, Image, Labels, NewImage, Result};
use kiln_wire::labels;

const LIMIT: Duration = Duration::from_secs(3600);
/// What makes an image Kiln's.
const OWN: &str = "kiln_";
/// On an image from the first moment until it is whole: the cluster it is built for.
pub(super) const UNFINISHED: &str = "kiln_unfinished";
/// On an image with more properties than its tags.
const MORE: &str = "kiln_more";
/// Oracle's limits: characters of a value, and tags of one resource, of which two are kept for the marks above. The site's own
/// tags count, too.
const LONGEST: usize = 256;
const MOST: usize = 8;

impl WireImage {
    fn is_own(&self) -> bool {
        self.freeform_tags.keys().any(|key| key.starts_with(OWN))
    }

    fn is_whole(&self) -> bool {
        self.lifecycle_state == "AVAILABLE" && !self.freeform_tags.contains_key(UNFINISHED)
    }

    /// What others have tagged it with.
    fn foreign_tags(&self) -> Labels {
        self.freeform_tags.iter().filter(|(key, _)| !key.starts_with(OWN)).map(clone).collect()
    }
}

impl Driver {
    /// Those that can be booted, in the order of their creation. Oracle lists its own with them.
    pub async fn images(&self) -> Result<Vec<Image>> {
        let mut all: Vec<WireImage> = self.client.list(Core, &self.in_compartment("images")).await?;
        all.retain(WireImage::is_whole);
        let all = bounded(all, |image| self.with_properties(image)).await;
        let mut all = all.into_iter().collect::<Result<Vec<Image>>>()?;
        all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(all)
    }

    pub async fn image(&self, id: &str) -> Result<Image> {
        let image = self.wire_image(id).await?;
        self.with_properties(image).await
    }

    async fn wire_image(&self, id: &str) -> Result<WireImage> {
        let path = format!("/images/{}", checked("image", id)?);
        let image: WireImage = missing(self.client.get(Core, &path).await, "image", id)?;
        if image.lifecycle_state == "DELETED" {
            return Err(Error::not_found("image", id.to_string()));
        }
        Ok(image)
    }

    async fn with_properties(&self, image: WireImage) -> Result<Image> {
        let mut own: BTreeMap<String, String> =
            image.freeform_tags.iter().filter(|(k, _)| k.starts_with(OWN)).map(clone).collect();
        if own.remove(MORE).is_some() {
            own.extend(self.properties(&image.id).await?);
        }
        let is_label = |key: &str| [labels::CLUSTER, labels::ROLE].contains(&key);
        let (labels, properties): (Labels, BTreeMap<_, _>) =
            own.into_iter().partition(|(key, _)| is_label(key));
        Ok(Image {
            labels,
            properties,
            size_bytes: image.size.unwrap_or(0) * 1024 * 1024,
            created: image.time_created,
            name: image.display_name,
            id: image.id,
        })
    }

    /// By id or by name; the newest of a name.
    pub async fn find_image(&self, name: &str) -> Result<Image> {
        if name.starts_with("ocid1.image.") {
            return self.image(name).await;
        }
        let path = format!("{}&displayName={}", self.in_compartment("images"), encode(name));
        let all: Vec<WireImage> = self.client.list(Core, &path).await?;
        let newest = all.into_iter().filter(WireImage::is_whole).max_by_key(|image| image.time_created);
        match newest {
            Some(image) => self.with_properties(image).await,
            None => Err(Error::not_found("image", name.to_string())),
        }
    }

    pub async fn create_image(
        &self,
        instance: &str,
        new: NewImage,
        copied: &(dyn Fn() + Sync),
    ) -> Result<Image> {
        let there = self.own_instance(instance).await?;
        let cluster = cluster_of(&there.freeform_tags).unwrap_or_default();
        let body = json!({
            "compartmentId": self.settings.compartment,
            "instanceId": instance,
            "displayName": new.name,
            "freeformTags": { UNFINISHED: cluster },
        });
        let call = Call::post(Core, "/images", &body).once_only();
        let made: WireImage = self.while_busy(|| self.client.send(&call)).await?.read("an image")?;
        let told = async {
            copied();
            Ok(())
        };
        self.finish_image(&made.id, &new, told).await
    }

    /// Waits for an image that was begun, does what is left to do with it, and makes it whole; or removes it.
    pub(super) async fn finish_image(
        &self,
        id: &str,
        new: &NewImage,
        then: impl Future<Output = Result<()>>,
    ) -> Result<Image> {
        let finished = async {
            self.wait_image(id, &new.name).await?;
            then.await?;
            let all: BTreeMap<String, String> = new.labels.iter().chain(&new.properties).map(clone).collect();
            self.set_properties(&self.wire_image(id).await?, all).await?;
            self.image(id).await
        };
        match finished.await {
            Ok(image) => Ok(image),
            Err(error) => {
                // Of no use to anybody; should this fail, too, the next build finds it by its mark.
                let _ = self.client.delete(Core, &format!("/images/{id}")).await;
                Err(error)
            }
        }
    }

    async fn wait_image(&self, id: &str, name: &str) -> Result<()> {
        until(
            PACE,
            LIMIT,
            || format!("image {name} is not ready"),
            || async {
                match self.wire_image(id).await {
                    Err(error) if error.is_not_found() => {
                        Err(Error::failed(format!("image {name}: the cloud could not make it")))
                    }
                    Ok(image) if image.lifecycle_state == "AVAILABLE" => Ok(Some(())),
                    answer => answer.map(|_| None),
                }
            },
        )
        .await
    }

    /// Replaces what the image has of Kiln's; with that it is whole. Others' tags stay.
    async fn set_properties(&self, image: &WireImage, all: BTreeMap<String, String>) -> Result<()> {
        let (id, foreign) = (&image.id, image.foreign_tags());
        let (mut tags, more) = divide(all, MOST.saturating_sub(foreign.len()));
        if !more.is_empty() {
            self.put_properties(id, &more).await?;
            tags.insert(MORE.into(), "yes".into());
        }
        tags.extend(foreign);
        let body = json!({ "freeformTags": tags });
        self.client.send(&Call::put(Core, format!("/images/{id}"), &body).once_only()).await.map(drop)
    }

    /// To those that an image has.
    pub(super) async fn add_properties(&self, id: &str, new: &Labels) -> Result<()> {
        let there = self.wire_image(id).await?;
        if !there.is_own() {
            return Err(not_ours("image", &format!("{} ({id})", there.display_name)));
        }
        let image = self.with_properties(there.clone()).await?;
        let all = image.labels.into_iter().chain(image.properties);
        self.set_properties(&there, all.chain(new.clone()).collect()).await
    }

    pub async fn delete_image(&self, id: &str) -> Result<()> {
        let image = match self.wire_image(id).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if !image.is_own() {
            return Err(not_ours("image", &format!("{} ({id})", image.display_name)));
        }
        let path = format!("/images/{id}");
        self.while_busy(|| self.client.delete(Core, &path)).await?;
        if image.freeform_tags.contains_key(MORE) {
            self.delete_properties(id).await?;
        }
        Ok(())
    }

    /// What builds of the cluster that were cut off have left.
    pub async fn clear_build(&self, cluster: &str) -> Result<()> {
        let all: Vec<WireImage> = self.client.list(Core, &self.in_compartment("images")).await?;
        let left = |image: &&WireImage| image.freeform_tags.get(UNFINISHED).is_some_and(|of| of == cluster);
        for image in all.iter().filter(left).filter(|image| image.lifecycle_state != "DELETED") {
            self.delete_image(&image.id).await?;
        }
        Ok(())
    }
}

/// What fits into this many tags, and what does not.
fn divide(all: BTreeMap<String, String>, most: usize) -> (Labels, BTreeMap<String, String>) {
    let (mut tags, mut more) = (Labels::new(), BTreeMap::new());
    for (key, value) in all {
        let fits = key.starts_with(OWN) && value.chars().count() <= LONGEST && tags.len() < most;
        let place = if fits { &mut tags } else { &mut more };
        place.insert(key, value);
    }
    (tags, more)
}

fn clone((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_hold_what_oracle_lets_them() {
        let all: BTreeMap<String, String> = (0..20)
            .map(|n| (format!("kiln_{n:02}"), if n == 3 { "x".repeat(257) } else { "y".repeat(256) }))
            .chain([("other".to_string(), "z".to_string())])
            .collect();
        let (tags, more) = divide(all.clone(), MOST);
        assert_eq!((tags.len(), more.len()), (MOST, 13));
        assert!(more.contains_key("kiln_03") && more.contains_key("other"));
        assert_eq!(tags.into_iter().chain(more).collect::<BTreeMap<_, _>>(), all);
    }
}
