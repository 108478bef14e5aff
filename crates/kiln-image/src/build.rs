//! The build sequence: build instance, update, install, clean, shut down, image, instance gone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use kiln_cloud::{
    Cloud, Image, InstanceStatus, Labels, Network, NewImage, NewInstance, NewNetwork, NewSecurityGroup, Rule,
};
use kiln_distro::{Family, Step};
use kiln_site::ServiceUser;
use kiln_site::services::{self, OpenTo};
use kiln_ssh::{Host, Ssh};
use kiln_wire::labels;
use kiln_wire::labels::image as property;
use kiln_wire::{Identity, SecretText, UserData};
use tokio_util::sync::CancellationToken;

use crate::catalog::{built_image, images_of_kiln};
use crate::manifest::{Manifest, Package};
use crate::progress::{Event, Progress};
use crate::recipe::{Recipe, Source};
use crate::steps;

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
    pub keep_on_failure: bool,
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
}

impl BuildError {
    /// What a person can do about it, where the cloud knows.
    pub fn hint(&self) -> Option<&str> {
        match self {
            BuildError::Cloud(error) => error.hint(),
            BuildError::Failed { source, .. } => source.hint(),
            _ => None,
        }
    }
}

const ROLE: &str = "build";

/// The network and security group of the build instance.
struct BuildNetwork {
    network: String,
    security_group: String,
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
        let images = images_of_kiln(self.cloud).await?;
        if let Some(image) = built_image(&images, recipe).filter(|_| !force) {
            return Ok(image.clone());
        }
        let source = match &recipe.source {
            Source::System(system) => {
                let say = |text: &str| self.say(&recipe.name, text);
                self.cloud.source_image(system.name(), &say).await?
            }
            Source::Cloud(name) => self.cloud.find_image(name).await?,
            Source::Image(parent) => Box::pin(self.ensure(parent, false)).await?,
        };
        self.build(recipe, &source).await
    }

    async fn build(&self, recipe: &Recipe, source: &Image) -> Result<Image, BuildError> {
        if self.stop.is_cancelled() {
            return Err(BuildError::Stopped);
        }
        self.clear().await?;
        let network = self.network().await?;
        let group = self
            .cloud
            .create_security_group(NewSecurityGroup {
                name: instance_name(self.cluster),
                labels: self.labels(),
                rules: public_rules(self.ssh_from),
                without: Vec::new(),
            })
            .await?;
        let within = BuildNetwork { network: network.id, security_group: group.id };
        let result = self.build_on(recipe, source, within).await;
        if let Err(error) = result {
            if matches!(error, BuildError::Stopped) {
                self.say(&recipe.name, "stopping: deleting the build instance");
                self.clear().await?;
                return Err(error);
            }
            for line in self.console().await.lines() {
                self.say(&recipe.name, &format!("console: {}", line.trim_end()));
            }
            if self.keep_on_failure {
                let name = instance_name(self.cluster);
                self.say(&recipe.name, &format!("instance {name} is kept; `kiln ssh {name}` logs in to it"));
            } else {
                self.clear().await?;
            }
            return Err(BuildError::Failed { image: recipe.name.clone(), source: Box::new(error) });
        }
        self.clear().await?;
        result
    }

    async fn network(&self) -> Result<Network, BuildError> {
        if let Some(name) = self.network {
            let missing = || kiln_cloud::Error::not_found("network", name);
            return Ok(self.cloud.network_by_name(name).await?.ok_or_else(missing)?);
        }
        let name = instance_name(self.cluster);
        Ok(self
            .cloud
            .create_network(NewNetwork { name, cidr: None, labels: self.labels(), automatic: None })
            .await?)
    }

    async fn build_on(
        &self,
        recipe: &Recipe,
        source: &Image,
        within: BuildNetwork,
    ) -> Result<Image, BuildError> {
        let family = recipe.family();
        self.say(&recipe.name, "booting the build instance");
        let (id, host) = self.boot(source, within).await?;
        self.step(recipe, &host, &steps::INSTALL_KILN, &[self.kiln_digest], self.kiln).await?;
        let before = self.packages(family, &host).await?;
        if let Some(mirror) = &recipe.mirror {
            let mirrors = [mirror.security(), mirror.others()].map(Option::unwrap_or_default);
            self.step(recipe, &host, &family.steps.pin_mirror, &mirrors, b"").await?;
        }
        if recipe.bootable {
            let packages: Vec<&str> = recipe.packages.iter().map(String::as_str).collect();
            self.step(recipe, &host, &family.steps.bootable, &packages, b"").await?;
        } else {
            self.install(recipe, &host).await?;
        }
        let (enabled, disabled) = services::units_of_image(family);
        let units: Vec<&str> = enabled.into_iter().chain(["--"]).chain(disabled).collect();
        self.step(recipe, &host, &steps::SETTLE_SERVICES, &units, b"").await?;
        let packages = self.packages(family, &host).await?;
        self.step(recipe, &host, &family.steps.clean, &[], b"").await?;
        self.step(recipe, &host, &steps::CLEAN, &services::leftovers(), b"").await?;

        self.say(&recipe.name, "shutting down");
        self.cloud.stop(&id, false).await?;
        self.wait_stopped(&id).await?;
        self.say(&recipe.name, "creating the image");
        let manifest = Manifest {
            format: kiln_wire::Version,
            recipe: recipe.digest(),
            source: source.name.clone(),
            source_digest: Some(Manifest::digest_of(&before)),
            family: family.name.to_string(),
            built: jiff::Timestamp::now(),
            kiln: env!("CARGO_PKG_VERSION").to_string(),
            packages,
        };
        let properties = BTreeMap::from([
            (property::RECIPE.to_string(), manifest.recipe.clone()),
            (property::NAME.to_string(), recipe.name.clone()),
            (property::MANIFEST.to_string(), serde_json::to_string(&manifest)?),
        ]);
        let new = NewImage { name: recipe.image_name(manifest.built), labels: Labels::new(), properties };
        Ok(self.cloud.create_image(&id, new).await?)
    }

    /// What a recipe adds to its source.
    async fn install(&self, recipe: &Recipe, host: &Host) -> Result<(), BuildError> {
        let family = recipe.family();
        let lax = if recipe.is_snapshot() { family.steps.outdated } else { &[] };
        self.step(recipe, host, &family.steps.update, lax, b"").await?;
        // Before the packages, which would give them numbers of their own.
        let users: Vec<String> = ServiceUser::ALL.map(|user| format!("{}:{}", user.name, user.id)).to_vec();
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        self.step(recipe, host, &steps::MAKE_SERVICE_USERS, &users, b"").await?;
        let packages: Vec<&str> = recipe.packages.iter().map(String::as_str).collect();
        if !packages.is_empty() {
            self.step(recipe, host, &family.steps.install, &packages, b"").await?;
        }
        for command in &recipe.commands {
            self.say(&recipe.name, &format!("running: {command}"));
            self.script(host, "a command of the file", command, &[], b"").await?;
        }
        Ok(())
    }

    async fn packages(&self, family: &Family, host: &Host) -> Result<Vec<Package>, BuildError> {
        let command = ["sh", "-c", family.installed.list];
        let listed = self.unless_stopped(self.ssh.run(host, &command, b"")).await??;
        let packages = Manifest::packages_from(family, &listed);
        if packages.is_empty() {
            let message = "the build instance lists no packages".to_string();
            return Err(BuildError::Step { step: "listing packages".into(), message });
        }
        Ok(packages)
    }

    async fn boot(&self, source: &Image, within: BuildNetwork) -> Result<(String, Host), BuildError> {
        let name = instance_name(self.cluster);
        let identity = Identity {
            format: kiln_wire::Version,
            cluster: self.cluster.to_string(),
            node: name.clone(),
            role: ROLE.to_string(),
            domain: "internal".to_string(),
            build: true,
            seal_key: None,
            sender_key: None,
            ssh_host_key: Some(self.host_key.clone()),
            share: None,
        };
        let new = NewInstance {
            name: name.clone(),
            image: source.id.clone(),
            flavor: self.flavor.to_string(),
            network: within.network,
            address: None,
            public: true,
            zone: None,
            security_groups: vec![within.security_group],
            user_data: UserData { kiln: identity }.to_text(self.cloud_init)?,
            ssh_key: self.ssh_public_key.to_string(),
            labels: self.labels(),
            volumes: Vec::new(),
        };
        let instance = match self.cloud.create(vec![new]).await.pop() {
            Some(result) => result?,
            None => return Err(kiln_cloud::Error::failed("the cloud created no instance").into()),
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(300);
        let ids = [instance.id.clone()];
        let active = self.unless_stopped(self.cloud.wait_active(&ids, deadline, |_| {})).await??;
        let address: IpAddr = active
            .iter()
            .find_map(kiln_cloud::Instance::reach)
            .ok_or_else(|| kiln_cloud::Error::failed("the build instance has no address"))?;
        let host = Host::new(name, address);
        self.unless_stopped(self.ssh.wait_output(&host, &["true"], Duration::from_secs(120))).await??;
        Ok((instance.id, host))
    }

    async fn wait_stopped(&self, id: &str) -> Result<(), BuildError> {
        for _ in 0..600 {
            if self.cloud.instance(id).await?.status == InstanceStatus::Stopped {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Err(kiln_cloud::Error::failed("the build instance did not shut down").into())
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

    async fn step(
        &self,
        recipe: &Recipe,
        host: &Host,
        step: &Step,
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<(), BuildError> {
        self.say(&recipe.name, step.says);
        self.script(host, step.says, step.script, arguments, stdin).await
    }

    async fn script(
        &self,
        host: &Host,
        says: &str,
        script: &str,
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<(), BuildError> {
        let argv: Vec<&str> =
            ["sh", "-c", script, "sh"].into_iter().chain(arguments.iter().copied()).collect();
        let output = self.unless_stopped(self.ssh.output(host, &argv, stdin)).await??;
        if output.status == 0 {
            return Ok(());
        }
        // Some package managers say what went wrong on standard error, some on standard output.
        let lines: Vec<&str> = output.stdout.lines().chain(output.stderr.lines()).collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n");
        Err(BuildError::Step { step: says.to_string(), message: format!("exit {}\n{tail}", output.status) })
    }

    /// A step may be abandoned at any time: the build instance is deleted anyway.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, BuildError> {
        self.stop.run_until_cancelled(work).await.ok_or(BuildError::Stopped)
    }

    fn labels(&self) -> Labels {
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        let cluster = [pair(labels::CLUSTER, self.cluster), pair(labels::ID, self.cluster_id)];
        cluster.into_iter().chain([pair(labels::ROLE, ROLE)]).collect()
    }

    fn say(&self, image: &str, text: &str) {
        (self.progress)(Event::working(format!("image {image}"), text));
    }
}
