//! Which image of the cloud each image of the file stands for, and building those that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kiln_cloud::Image;
use kiln_image::{Ask, Builder, Event, LockFile, Recipe, Source, built_image, images_of_kiln, standing};
use kiln_spec::{Credentials, ImageSource, SourceSpec, Spec, hostlist};
use kiln_wire::SecretText;
use sha2::{Digest as _, Sha256};

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::plan::check;

/// Image of the file -> id in the cloud, or `None` where it is not built yet.
pub type Targets = BTreeMap<String, Option<String>>;

pub fn targets(spec: &Spec, observed: &Observed) -> Targets {
    let used: BTreeSet<&str> = spec.nodes().map(|n| n.image).collect();
    let id = |name: &str| {
        if let Some(ImageSource::Prebuilt(prebuilt)) = spec.images.get(name).map(|image| &image.source) {
            let found = observed.images.iter().find(|i| i.name == *prebuilt || i.id == *prebuilt);
            return found.map(|image| image.id.clone());
        }
        let recipe = Recipe::of(spec, name)?;
        built_image(&observed.images, &recipe).map(|image| image.id.clone())
    };
    used.into_iter().map(|name| (name.to_string(), id(name))).collect()
}

/// How an image is built.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// Although its recipe has been built before.
    pub force: bool,
    pub keep_on_failure: bool,
    /// Asked what to do about a step that has failed.
    pub ask: Option<Ask>,
    /// To stand for its recipe only when it is promoted.
    pub test: bool,
    /// Just the packages of this lock file, which is at this path.
    pub lock: Option<(LockFile, PathBuf)>,
    /// Packages are kept below this directory, and taken from there where a lock is followed.
    pub packages: Option<PathBuf>,
}

impl Deployment<'_> {
    /// Builds an image of the file, unless its recipe has been built before.
    pub async fn build_image(&self, name: &str, how: &BuildOptions) -> Result<Image> {
        if let Some(ImageSource::Prebuilt(prebuilt)) = self.spec.images.get(name).map(|i| &i.source) {
            return Ok(self.cloud.find_image(prebuilt).await?);
        }
        let recipe = Recipe::of(self.spec, name).ok_or_else(|| Error::ImageNotBuilt(name.to_string()))?;
        let recipe = match &how.lock {
            Some((file, path)) => recipe.locked(file, path)?,
            None => recipe,
        };
        let image = self.ensure_image(&recipe, how).await?;
        if recipe.lock.is_some() && !how.test {
            // One that was built from this lock before may have been followed by others.
            let images = images_of_kiln(&self.cloud).await?;
            let standing = standing(&images, &recipe.unlocked_digest()).first().map(|now| now.id.clone());
            if standing.as_ref() != Some(&image.id) {
                self.promote(name, &image).await?;
            }
        }
        (self.progress)(Event::done(format!("image {name}"), image.name.clone()));
        Ok(image)
    }

    /// The image of a recipe, found or built.
    pub(crate) async fn ensure_image(&self, recipe: &Recipe, how: &BuildOptions) -> Result<Image> {
        if let Some(source) = without_snapshot(recipe) {
            return Err(Error::NoSnapshot(source.to_string()));
        }
        let ssh = self.ssh()?.patient();
        let instance = kiln_image::instance_name(&self.spec.name);
        let kiln = self.kiln_bytes()?;
        let builder = Builder {
            cloud: &self.cloud,
            ssh: &ssh,
            ssh_public_key: &self.ssh_public_key()?,
            host_key: &self.keys()?.node(&instance)?.ssh_host_key,
            cluster: &self.spec.name,
            cluster_id: &self.secrets.cluster_id()?.unwrap_or_default(),
            flavor: &self.spec.control.flavor,
            network: self.spec.cloud.existing_network(),
            ssh_from: &self.spec.cloud.ssh_from(),
            cloud_init: self.has_cloud_init(),
            kiln_digest: &hex::encode(Sha256::digest(&kiln)),
            kiln: &kiln,
            credentials: &|reference| credentials(reference, self.file_dir()),
            keep_on_failure: how.keep_on_failure,
            ask: how.ask.as_ref(),
            test: how.test,
            packages_dir: how.packages.as_deref(),
            progress: self.progress,
            stop: &self.stop,
        };
        Ok(builder.ensure(recipe, how.force || how.test).await?)
    }

    /// Refuses if nodes run this image.
    pub async fn check_unused(&self, image: &Image) -> Result<()> {
        let instances = self.cloud.instances(&self.spec.name).await?;
        let users: Vec<&str> = instances
            .iter()
            .filter(|i| i.image.as_ref() == Some(&image.id))
            .map(|i| i.name.as_str())
            .collect();
        if users.is_empty() {
            return Ok(());
        }
        Err(Error::ImageInUse { image: image.name.clone(), nodes: hostlist::fold(users) })
    }

    /// Builds the images that nodes need and the cloud does not have.
    /// Nothing is built for a plan that would be refused.
    pub async fn build_missing_images(&self) -> Result<()> {
        let mut observed = self.observe().await?;
        self.check_owner(&observed)?;
        self.check_awake(&observed)?;
        self.ask_release(&mut observed).await;
        self.ask_accounts(&mut observed).await;
        let targets = targets(self.spec, &observed);
        check(self.spec, &observed, &targets)?;
        self.build_unbuilt(&targets).await
    }

    pub(crate) async fn build_unbuilt(&self, targets: &Targets) -> Result<()> {
        for (name, id) in targets {
            if id.is_none() {
                self.check_stop()?;
                self.build_image(name, &BuildOptions::default()).await?;
            }
        }
        Ok(())
    }
}

/// A source whose packages are in snapshots only, while none is chosen. Images below count: they may have to be built too.
fn without_snapshot(recipe: &Recipe) -> Option<&str> {
    let lacks = |source: &&SourceSpec| {
        source.snapshot.is_none() && source.pulp.as_ref().is_some_and(|pulp| pulp.upstream.is_none())
    };
    let below = match &recipe.source {
        Source::Image(parent) => without_snapshot(parent),
        Source::System(_) | Source::Cloud(..) => None,
    };
    recipe.sources.iter().find(lacks).map(|source| source.name.as_str()).or(below)
}

/// The `USER:PASSWORD` of a package source or server, for a cluster file in this directory.
pub(crate) fn credentials(reference: &Credentials, dir: &Path) -> std::result::Result<SecretText, String> {
    match reference {
        Credentials::Environment(name) => match std::env::var(name) {
            Ok(text) => Ok(text.into()),
            Err(_) => Err(format!("the environment variable {name} is not set")),
        },
        Credentials::File(path) => {
            let path = dir.join(path);
            let text = std::fs::read_to_string(&path);
            text.map(SecretText::from).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}
