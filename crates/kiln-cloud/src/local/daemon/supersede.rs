//! Source images that a newer one of the same suite has taken the place of. Every new `kiln` program makes
//! one; they would pile up.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};

use super::records::ImageRecord;
use super::source::suite_of;
use super::{Daemon, World};
use crate::{Image, Result};

/// Whoever was told of an image makes an instance of it within this time.
const CLAIM: SignedDuration = SignedDuration::from_mins(10);
/// Being told again is noted no more often than this.
const NOTE: SignedDuration = SignedDuration::from_mins(1);

impl Daemon {
    /// Removes their records; the layers go with the next collection.
    pub fn drop_superseded(&self) {
        let mut world = self.world();
        if self.is_making_source() {
            // Perhaps on top of one of them; it comes here when it is done.
            return;
        }
        for id in world.superseded(Timestamp::now()) {
            match world.images.remove(&id) {
                Ok(()) => tracing::info!(id, "superseded source image removed"),
                Err(error) => tracing::warn!(id, %error, "cannot remove a superseded source image"),
            }
        }
    }

    /// A source image for somebody who is going to use it: it stays for a while.
    pub fn hand_out(&self, wanted: impl Fn(&Image) -> bool) -> Result<Option<Image>> {
        let mut world = self.world();
        let Some(record) = world.images.iter().find(|record| wanted(&record.image)) else {
            return Ok(None);
        };
        let now = Timestamp::now();
        let image = record.image.clone();
        if record.handed_out.is_none_or(|at| at < now - NOTE) {
            let noted = ImageRecord { handed_out: Some(now), ..record.clone() };
            world.images.put(noted)?;
        }
        Ok(Some(image))
    }
}

impl World {
    fn superseded(&self, now: Timestamp) -> Vec<String> {
        let images: Vec<_> = self.images.iter().collect();
        let used: HashSet<_> = self.instances.iter().map(|i| i.image.as_str()).collect();
        superseded(&images, &used, now)
    }
}

/// Those with a newer one of the same suite, that no instance is of and nobody is about to use.
fn superseded(images: &[&ImageRecord], used: &HashSet<&str>, now: Timestamp) -> Vec<String> {
    let has_newer = |image: &Image| {
        images
            .iter()
            .any(|other| suite_of(&other.image) == suite_of(image) && other.image.created > image.created)
    };
    images
        .iter()
        .filter(|record| suite_of(&record.image).is_some() && has_newer(&record.image))
        .filter(|record| record.handed_out.unwrap_or(record.image.created) < now - CLAIM)
        .map(|record| record.image.id.clone())
        .filter(|id| !used.contains(id.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::local::daemon::source::SYSTEM;

    fn image(id: &str, suite: Option<&str>, minute: i64) -> ImageRecord {
        let mut properties = BTreeMap::new();
        if let Some(suite) = suite {
            properties.insert(SYSTEM.to_string(), "digest".to_string());
            properties.insert("suite".to_string(), suite.to_string());
        }
        let image = Image {
            id: id.into(),
            name: id.into(),
            labels: BTreeMap::new(),
            properties,
            size_bytes: 0,
            created: at(minute),
        };
        ImageRecord { image, layers: vec![], handed_out: None }
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    #[test]
    fn only_the_newest_of_a_suite_and_those_in_use_stay() {
        let images = [
            image("old", Some("bookworm"), 0),
            image("used", Some("bookworm"), 1),
            ImageRecord { handed_out: Some(at(95)), ..image("claimed", Some("bookworm"), 2) },
            ImageRecord { handed_out: Some(at(80)), ..image("unclaimed", Some("bookworm"), 3) },
            image("fresh", Some("bookworm"), 98),
            image("newest", Some("bookworm"), 99),
            image("other", Some("trixie"), 0),
            image("built", None, 0),
            image("built-again", None, 50),
        ];
        let images: Vec<_> = images.iter().collect();
        assert_eq!(superseded(&images, &["used"].into(), at(100)), ["old", "unclaimed"]);
    }
}
