//! Builds images: what a build needs, and that nothing is left of it, however it ends. Its steps are in `sequence.rs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_cloud::{Cloud, Image, Labels, Network, NewNetwork, NewSecurityGroup, Rule};
use kiln_site::services::{self, OpenTo};
use kiln_spec::Credentials;
use kiln_ssh::Ssh;
use kiln_wire::{SecretText, labels};
use tokio_util::sync::CancellationToken;

use crate::ask::Ask;
use crate::catalog::{built_image, images_of_kiln};
use crate::login::Login;
use crate::progress::{Event, Progress};
use crate::recipe::{Recipe, Source};
use crate::sequence::Sequence;

/// What a build needs besides its recipe.
pub struct Builder<'a> {
    pub cloud: &'a Cloud,
    pub ssh: &'a Ssh,
    pub ssh_public_key: &'a str,
    /// OpenSSH private host key that the build instance gets; `ssh` knows it under the instance's name. Secret.
    pub host_key: &'a SecretText,
    /// Labels the build instance, so that a build that was cut off is found and cleared by the next one.
    pub cluster: &'a str,
    /// Which cluster of that name.
    pub cluster_id: &'a str,
    pub flavor: &'a str,
    /// Name of a network that exists, to build in; `None`: one is made for the build.
    pub network: Option<&'a str>,
    /// Who may connect to the build instance.
    pub ssh_from: &'a [ipnet::Ipv4Net],
    /// The source image has cloud-init, which must be told who may log in.
    pub cloud_init: bool,
    /// The binary that goes into the image.
    pub kiln: &'a [u8],
    /// Its SHA-256.
    pub kiln_digest: &'a str,
    /// Finds the `USER:PASSWORD` of a package source, or says why it cannot.
    pub credentials: &'a (dyn Fn(&Credentials) -> Result<SecretText, String> + Send + Sync),
    pub keep_on_failure: bool,
    /// Asked what to do about a step that has failed. `None`: the build fails.
    pub ask: Option<&'a Ask>,
    /// The image is to stand for its recipe only when it is promoted.
    pub test: bool,
    /// Below it, a directory for each image: packages are kept there, and taken from there where a lock is followed.
    pub packages_dir: Option<&'a Path>,
    pub progress: Progress<'a>,
    /// Cancelled when the build is to stop.
    pub stop: &'a CancellationToken,
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Cloud(#[from] kiln_cloud::Error),
    #[error(transparent)]
    Ssh(#[from] kiln_ssh::Error),
    #[error("{step}: {message}")]
    Step { step: String, message: String },
    #[error("no credentials for source {source_name}: {message}")]
    Credentials { source_name: String, message: String },
    #[error("Kiln cannot {what} of an image of the {family} family")]
    Impossible { what: &'static str, family: &'static str },
    #[error("the build took longer than {limit:?}: it was given up in the step `{step}`")]
    TooLong { limit: Duration, step: &'static str },
    #[error("the image is not as locked: {}", .0.join(", "))]
    NotAsLocked(Vec<String>),
    #[error("packages in {}", path.display())]
    Kept {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the image's manifest could not be written")]
    Manifest(#[from] serde_json::Error),
    #[error("stopped as requested")]
    Stopped,
    #[error("building image {image} failed")]
    Failed {
        image: String,
        #[source]
        source: Box<BuildError>,
    },
    #[error("image {image} is built and can be used, but its build instance could not be deleted")]
    Left {
        image: String,
        #[source]
        source: Box<BuildError>,
    },
}

impl BuildError {
    /// What a person can do about it, where the cloud knows.
    pub fn hint(&self) -> Option<&str> {
        match self {
            BuildError::Cloud(error) => error.hint(),
            BuildError::TooLong { .. } => Some("`timeout` in [image.NAME.build] sets another limit"),
            BuildError::Failed { source, .. } => source.hint(),
            BuildError::Left { .. } => {
                Some("the next image build of this cluster deletes it, and so does `kiln destroy`")
            }
            BuildError::Impossible { what: "keep the packages", .. } => {
                Some("build from a source with `snapshot`, which keeps them")
            }
            _ => None,
        }
    }
}

pub(crate) const ROLE: &str = labels::BUILD_ROLE;

/// The network and security group of the build instance.
pub(crate) struct BuildNetwork {
    pub network: String,
    pub security_group: String,
}

/// The name of the instance that builds images for a cluster.
pub fn instance_name(cluster: &str) -> String {
    format!("{cluster}-build")
}

/// Kiln reaches a build instance like the users reach a login node.
fn public_rules(from: &[ipnet::Ipv4Net]) -> Vec<Rule> {
    let rules = |port| from.iter().map(move |net| Rule { from: (*net).into(), tcp_port: Some(port) });
    services::ports(OpenTo::Everyone).into_iter().flat_map(rules).collect()
}

impl Builder<'_> {
    /// The image of this recipe: found, or built together with the images it is based on.
    pub async fn ensure(&self, recipe: &Recipe, force: bool) -> Result<Image, BuildError> {
        self.check_family(recipe)?;
        let images = images_of_kiln(self.cloud).await?;
        if let Some(image) = built_image(&images, recipe).filter(|_| !force) {
            return Ok(image.clone());
        }
        // Before the image below is built, which takes minutes.
        let logins = self.logins(recipe)?;
        let source = match &recipe.source {
            Source::System(system) => {
                let say = |text: &str| self.say(&recipe.name, text);
                self.cloud.source_image(system.name(), &say).await?
            }
            Source::Cloud(name, _) => self.cloud.find_image(name).await?,
            Source::Image(parent) => Box::pin(self.ensure(parent, false)).await?,
        };
        self.build(recipe, &source, logins).await
    }

    /// What the family cannot do, before anything is made.
    fn check_family(&self, recipe: &Recipe) -> Result<(), BuildError> {
        let family = recipe.family();
        let impossible = |what| Err(BuildError::Impossible { what, family: family.name });
        if recipe.bootable && family.steps.bootable.is_none() {
            return impossible("make a disk");
        }
        if self.packages_dir.is_some() && family.steps.keep.is_none() {
            return impossible("keep the packages");
        }
        Ok(())
    }

    fn logins(&self, recipe: &Recipe) -> Result<Vec<Login>, BuildError> {
        let login = |(at, reference): (usize, &Credentials)| {
            let source = &recipe.sources[at].name;
            let wrong = |message: String| BuildError::Credentials { source_name: source.clone(), message };
            let text = (self.credentials)(reference).map_err(wrong)?;
            Login::of(at, &text).ok_or_else(|| wrong("they are not USER:PASSWORD, without spaces".into()))
        };
        let needed = recipe.sources.iter().map(|source| source.credentials.as_ref()).enumerate();
        needed.filter_map(|(at, reference)| Some((at, reference?))).map(login).collect()
    }

    async fn build(&self, recipe: &Recipe, source: &Image, logins: Vec<Login>) -> Result<Image, BuildError> {
        if self.stop.is_cancelled() {
            return Err(BuildError::Stopped);
        }
        self.clear().await?;
        let mut sequence = Sequence::new(self, recipe, logins);
        let image = match self.make(recipe, source, &mut sequence).await {
            Ok(image) => image,
            Err(error) => return Err(self.fail(recipe, error).await),
        };
        sequence.begin("delete", "deleting the build instance");
        if let Err(error) = self.clear().await {
            return Err(BuildError::Left { image: image.name, source: Box::new(error) });
        }
        (self.progress)(Event::done(format!("image {}", recipe.name), sequence.times()));
        Ok(image)
    }

    /// All that is made here has the labels of a build, by which it is found and deleted.
    async fn make(
        &self,
        recipe: &Recipe,
        source: &Image,
        sequence: &mut Sequence<'_>,
    ) -> Result<Image, BuildError> {
        let network = self.network(recipe).await?;
        let group = self
            .cloud
            .create_security_group(NewSecurityGroup {
                name: instance_name(self.cluster),
                labels: self.labels(),
                rules: public_rules(self.ssh_from),
                without: Vec::new(),
            })
            .await?;
        sequence.run(source, BuildNetwork { network: network.id, security_group: group.id }).await
    }

    /// Deletes what there is of a build that has failed. Its own error is told, also if that fails too.
    async fn fail(&self, recipe: &Recipe, error: BuildError) -> BuildError {
        let say = |text: &str| self.say(&recipe.name, text);
        let is_stopped = matches!(error, BuildError::Stopped);
        if is_stopped {
            say("stopping: deleting the build instance");
        } else {
            for line in self.console().await.lines() {
                say(&format!("console: {}", line.trim_end()));
            }
        }
        if self.keep_on_failure && !is_stopped {
            let name = instance_name(self.cluster);
            say(&format!("instance {name} is kept; `kiln ssh {name}` logs in to it"));
        } else if let Err(left) = self.clear().await {
            say(&format!("the build instance could not be deleted: {left}; the next build deletes it"));
        }
        if is_stopped {
            return error;
        }
        BuildError::Failed { image: recipe.name.clone(), source: Box::new(error) }
    }

    async fn network(&self, recipe: &Recipe) -> Result<Network, BuildError> {
        if let Some(name) = recipe.build.network.as_deref().or(self.network) {
            let missing = || kiln_cloud::Error::not_found("network", name);
            return Ok(self.cloud.network_by_name(name).await?.ok_or_else(missing)?);
        }
        let name = instance_name(self.cluster);
        Ok(self
            .cloud
            .create_network(NewNetwork { name, cidr: None, labels: self.labels(), automatic: vec![] })
            .await?)
    }

    /// Removes what a build left, its own or one that was cut off.
    async fn clear(&self) -> Result<(), BuildError> {
        self.cloud.clear_build(self.cluster).await?;
        let is_build = |labels: &Labels| labels.get(labels::ROLE).is_some_and(|role| role == ROLE);
        for instance in self.cloud.instances(self.cluster).await?.iter().filter(|i| is_build(&i.labels)) {
            self.cloud.delete(&instance.id).await?;
        }
        for group in self.cloud.security_groups(self.cluster).await?.iter().filter(|g| is_build(&g.labels)) {
            self.cloud.delete_security_group(&group.id).await?;
        }
        for network in self.cloud.networks(self.cluster).await?.iter().filter(|n| is_build(&n.labels)) {
            self.cloud.delete_network(&network.id).await?;
        }
        Ok(())
    }

    async fn console(&self) -> String {
        let found = self.cloud.instances(self.cluster).await.unwrap_or_default();
        let Some(build) = found.iter().find(|i| i.name == instance_name(self.cluster)) else {
            return String::new();
        };
        self.cloud.console_log(&build.id, 30).await.unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> Labels {
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        let cluster = [pair(labels::CLUSTER, self.cluster), pair(labels::ID, self.cluster_id)];
        cluster.into_iter().chain([pair(labels::ROLE, ROLE)]).collect()
    }

    pub(crate) fn say(&self, image: &str, text: &str) {
        (self.progress)(Event::working(format!("image {image}"), text));
    }
}
