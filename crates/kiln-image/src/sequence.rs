//! The steps of a build: build instance, sources, update, install, clean, shut down, image.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kiln_cloud::{Image, InstanceStatus, Labels, NewImage, NewInstance};
use kiln_distro::{Family, SourceFile, Step};
use kiln_site::{ServiceUser, services};
use kiln_ssh::Host;
use kiln_wire::labels::image as property;
use kiln_wire::{Identity, UserData};

use crate::ask::{Choice, Question};
use crate::build::{BuildError, BuildNetwork, Builder, ROLE, instance_name};
use crate::catalog::{images_of_kiln, line, promotion};
use crate::login::Login;
use crate::manifest::{Manifest, Package};
use crate::recipe::Recipe;
use crate::refusal::refusals;
use crate::steps;

/// For a machine to boot and answer.
const SSH_LIMIT: Duration = Duration::from_secs(300);

/// One build, from its instance to its image.
pub(crate) struct Sequence<'b> {
    pub(crate) builder: &'b Builder<'b>,
    pub(crate) recipe: &'b Recipe,
    pub(crate) family: &'static Family,
    logins: Vec<Login>,
    /// When it is given up.
    deadline: Instant,
    /// When each step began.
    began: Vec<(&'static str, Instant)>,
}

impl<'b> Sequence<'b> {
    pub fn new(builder: &'b Builder<'b>, recipe: &'b Recipe, logins: Vec<Login>) -> Self {
        let deadline = Instant::now() + recipe.build.timeout;
        Sequence { builder, recipe, family: recipe.family(), logins, deadline, began: Vec::new() }
    }

    /// A step may be abandoned at any time, because somebody wants to stop or because it takes too long: the build instance is
    /// deleted anyway.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, BuildError> {
        let unless_stopped = self.builder.stop.run_until_cancelled(work);
        // People who are asked think as long as they like.
        if self.builder.ask.is_some() {
            return unless_stopped.await.ok_or(BuildError::Stopped);
        }
        let ended = tokio::time::timeout_at(self.deadline.into(), unless_stopped).await;
        let step = self.began.last().map_or("create", |(step, _)| *step);
        let too_long = |_| BuildError::TooLong { limit: self.recipe.build.timeout, step };
        ended.map_err(too_long)?.ok_or(BuildError::Stopped)
    }

    /// Notes the time, and says what happens now.
    pub fn begin(&mut self, step: &'static str, says: &str) {
        self.began.push((step, Instant::now()));
        self.builder.say(&self.recipe.name, says);
    }

    /// How long each step has taken, up to now.
    pub fn times(&self) -> String {
        let ends = self.began.iter().skip(1).map(|(_, began)| *began).chain([Instant::now()]);
        let took =
            self.began.iter().zip(ends).map(|((step, began), end)| {
                format!("{step} {:.1}", end.duration_since(*began).as_secs_f64())
            });
        let total = self.began.first().map_or(Duration::ZERO, |(_, began)| began.elapsed());
        format!("built in {:.1} s: {}", total.as_secs_f64(), took.collect::<Vec<_>>().join(", "))
    }

    pub async fn run(&mut self, source: &Image, within: BuildNetwork) -> Result<Image, BuildError> {
        let (recipe, family) = (self.recipe, self.family);
        let (id, host) = self.boot(source, within).await?;
        self.begin("kiln", steps::INSTALL_KILN.says);
        let builder = self.builder;
        self.step(&host, &steps::INSTALL_KILN, &[builder.kiln_digest], builder.kiln).await?;
        let before = self.packages(&host).await?;
        self.begin("sources", family.sources.settle.says);
        self.open_sources(&host).await?;
        if let Some(bootable) = family.steps.bootable.as_ref().filter(|_| recipe.bootable) {
            self.begin("bootable", bootable.says);
            let packages: Vec<&str> = recipe.packages.iter().map(String::as_str).collect();
            self.step(&host, bootable, &packages, b"").await?;
        } else {
            self.apply_lock(&host, &before).await?;
            self.install(&id, &host).await?;
        }
        self.begin("services", steps::SETTLE_SERVICES.says);
        let (enabled, disabled) = services::units_of_image(family);
        let disabled = disabled.into_iter().chain(recipe.disabled.iter().map(String::as_str));
        let units: Vec<&str> = enabled.into_iter().chain(["--"]).chain(disabled).collect();
        self.step(&host, &steps::SETTLE_SERVICES, &units, b"").await?;
        let packages = self.packages(&host).await?;
        self.check_lock(&packages)?;
        self.keep_packages(&host).await?;
        self.begin("clean", steps::CLEAN.says);
        self.close_sources(&host).await?;
        self.step(&host, &family.steps.clean, &[], b"").await?;
        self.step(&host, &steps::CLEAN, &services::leftovers(), b"").await?;
        self.begin("shut down", "shutting down");
        builder.cloud.stop(&id, false).await?;
        self.wait_stopped(&id).await?;
        self.begin("image", "creating the image");
        let manifest = Manifest {
            format: kiln_wire::Version,
            recipe: recipe.digest(),
            source: source.name.clone(),
            source_digest: Some(Manifest::digest_of(&before)),
            family: family.name.to_string(),
            software: recipe.software.iter().map(|software| software.name.clone()).collect(),
            descent: line(&images_of_kiln(builder.cloud).await?, source),
            built: jiff::Timestamp::now(),
            kiln: env!("CARGO_PKG_VERSION").to_string(),
            packages,
        };
        let mut properties = BTreeMap::from([
            (property::RECIPE.to_string(), manifest.recipe.clone()),
            (property::NAME.to_string(), recipe.name.clone()),
            (property::MANIFEST.to_string(), serde_json::to_string(&manifest)?),
            (property::BUILT_FOR.to_string(), builder.cluster_id.to_string()),
        ]);
        properties.extend(recipe.properties.in_cloud());
        if builder.test {
            properties.insert(property::TEST.to_string(), "yes".to_string());
        } else if recipe.lock.is_some() {
            properties.extend([promotion(&recipe.unlocked_digest())]);
        }
        let new = NewImage { name: recipe.image_name(manifest.built), labels: Labels::new(), properties };
        let copied = OnceLock::new();
        let note = || {
            copied.get_or_init(Instant::now);
            builder.say(&recipe.name, "setting its properties");
        };
        let image = builder.cloud.create_image(&id, new, &note).await?;
        self.began.push(("properties", copied.get().copied().unwrap_or_else(Instant::now)));
        Ok(image)
    }

    /// What a recipe adds to its source.
    async fn install(&mut self, id: &str, host: &Host) -> Result<(), BuildError> {
        let (recipe, family) = (self.recipe, self.family);
        self.begin("update", family.steps.update.says);
        self.step(host, &family.steps.update, &[], b"").await?;
        self.reboot_if_needed(id, host).await?;
        // Before the packages, which would give them numbers of their own.
        self.begin("users", steps::MAKE_SERVICE_USERS.says);
        let users: Vec<String> = ServiceUser::ALL.map(|user| format!("{}:{}", user.name, user.id)).to_vec();
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        self.step(host, &steps::MAKE_SERVICE_USERS, &users, b"").await?;
        let wanted: Vec<&str> = recipe.packages.iter().map(String::as_str).collect();
        if !wanted.is_empty() {
            self.begin("install", family.steps.install.says);
            let installed = self.step(host, &family.steps.install, &wanted, b"").await;
            installed.map_err(|error| self.name_software(error))?;
        }
        if !recipe.files.is_empty() {
            self.begin("files", "writing files");
        }
        for file in &recipe.files {
            let mode = format!("{:04o}", file.mode);
            let owner = format!("{}:{}", file.owner, file.group);
            let says = format!("writing {}", file.path);
            let arguments = [file.path.as_str(), &mode, &owner];
            self.script(host, &says, steps::WRITE_FILE.script, &arguments, file.content.as_bytes()).await?;
        }
        for command in &recipe.commands {
            self.begin("command", &format!("running: {command}"));
            self.script(host, "a command of the file", command, &[], b"").await?;
        }
        if !recipe.hold.is_empty() {
            self.begin("hold", family.steps.hold.says);
            let held: Vec<&str> = recipe.hold.iter().map(String::as_str).collect();
            self.step(host, &family.steps.hold, &held, b"").await?;
        }
        Ok(())
    }

    /// Which software of the file has the packages that the package manager speaks of.
    fn name_software(&self, error: BuildError) -> BuildError {
        let BuildError::Step { step, message } = error else { return error };
        let is_of_name =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | ':' | '=' | '~');
        let words = message.split(|c: char| !is_of_name(c)).map(|word| word.trim_end_matches(['.', ':']));
        let words: BTreeSet<&str> = words.collect();
        let named = words.into_iter().filter_map(|word| {
            self.recipe.wanted_by(word).map(|software| format!("{word} is of the software {software}"))
        });
        let message = [message.clone()].into_iter().chain(named).collect::<Vec<_>>().join("\n");
        BuildError::Step { step, message }
    }

    async fn boot(&mut self, source: &Image, within: BuildNetwork) -> Result<(String, Host), BuildError> {
        self.begin("create", "creating the build instance");
        let builder = self.builder;
        let name = instance_name(builder.cluster);
        let identity = Identity {
            format: kiln_wire::Version,
            cluster: builder.cluster.to_string(),
            node: name.clone(),
            role: ROLE.to_string(),
            domain: "internal".to_string(),
            build: true,
            seal_key: None,
            sender_key: None,
            ssh_host_key: Some(builder.host_key.clone()),
            share: None,
        };
        let new = NewInstance {
            name: name.clone(),
            image: source.id.clone(),
            flavor: self.recipe.build.flavor.as_deref().unwrap_or(builder.flavor).to_string(),
            network: within.network,
            address: None,
            public: true,
            zone: None,
            security_groups: vec![within.security_group],
            user_data: UserData { kiln: identity }.to_text(builder.cloud_init)?,
            ssh_key: builder.ssh_public_key.to_string(),
            labels: builder.labels(),
            volumes: Vec::new(),
            disk_gib: self.recipe.build.disk_gib,
            request: None,
        };
        let instance = match builder.cloud.create(vec![new]).await.pop() {
            Some(result) => result?,
            None => return Err(kiln_cloud::Error::failed("the cloud created no instance").into()),
        };
        self.begin("boot", "booting the build instance");
        let deadline = tokio::time::Instant::now() + Duration::from_secs(300);
        let ids = [instance.id.clone()];
        let active = self.in_time(builder.cloud.wait_active(&ids, deadline, |_| {})).await??;
        let address: IpAddr = active
            .iter()
            .find_map(kiln_cloud::Instance::reach)
            .ok_or_else(|| kiln_cloud::Error::failed("the build instance has no address"))?;
        let host = Host::new(name, address);
        self.begin("ssh", "waiting for SSH");
        let answer = builder.ssh.wait_output(&host, &["true"], SSH_LIMIT);
        self.in_time(answer).await??;
        Ok((instance.id, host))
    }

    /// A new kernel or C library is in use only then. What is built for the running kernel needs it.
    async fn reboot_if_needed(&mut self, id: &str, host: &Host) -> Result<(), BuildError> {
        const BOOT: &[&str] = &["cat", "/proc/sys/kernel/random/boot_id"];
        let builder = self.builder;
        let asking = ["sh", "-c", self.family.steps.reboot_for];
        let reasons = self.in_time(builder.ssh.run(host, &asking, b"")).await??;
        let reasons: Vec<&str> = reasons.lines().filter(|line| !line.is_empty()).collect();
        if reasons.is_empty() {
            return Ok(());
        }
        self.begin("reboot", &format!("rebooting for {}", reasons.join(", ")));
        let before = self.in_time(builder.ssh.run(host, BOOT, b"")).await??;
        builder.cloud.reboot(id, false).await?;
        let deadline = Instant::now() + SSH_LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let now = self.in_time(builder.ssh.wait_output(host, BOOT, left)).await?;
            // A connection to the system that goes down breaks.
            if now.is_ok_and(|now| now.status == 0 && now.stdout != before) {
                break;
            }
            if left.is_zero() {
                return Err(kiln_cloud::Error::failed("the build instance did not reboot").into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.write_credentials(host).await
    }

    async fn packages(&self, host: &Host) -> Result<Vec<Package>, BuildError> {
        let command = ["sh", "-c", self.family.installed.list];
        let listed = self.in_time(self.builder.ssh.run(host, &command, b"")).await??;
        let packages = Manifest::packages_from(self.family, &listed);
        if packages.is_empty() {
            let message = "the build instance lists no packages".to_string();
            return Err(BuildError::Step { step: "listing packages".into(), message });
        }
        Ok(packages)
    }

    /// For the build: the sources of the recipe and no others, with credentials.
    async fn open_sources(&self, host: &Host) -> Result<(), BuildError> {
        let names: Vec<&str> =
            self.logins.iter().map(|login| self.recipe.sources[login.source].name.as_str()).collect();
        self.settle_sources(host, self.recipe.system_sources, &names).await?;
        for file in self.recipe.sources.iter().flat_map(self.family.sources.files) {
            self.write(host, &file).await?;
        }
        self.write_credentials(host).await
    }

    /// They do not outlast a reboot.
    async fn write_credentials(&self, host: &Host) -> Result<(), BuildError> {
        for login in &self.logins {
            let source = &self.recipe.sources[login.source];
            let password = login.password.expose_secret();
            self.write(host, &(self.family.sources.credentials)(source, &login.user, password)).await?;
        }
        Ok(())
    }

    /// For nodes: those of the system, unless the packages are of another time, and those that nodes keep.
    async fn close_sources(&self, host: &Host) -> Result<(), BuildError> {
        self.settle_sources(host, !self.recipe.is_snapshot(), &[]).await?;
        let kept = self.recipe.sources.iter().filter(|source| source.keep);
        for file in kept.flat_map(self.family.sources.files) {
            self.write(host, &file).await?;
        }
        Ok(())
    }

    async fn settle_sources(
        &self,
        host: &Host,
        with_system: bool,
        with_credentials: &[&str],
    ) -> Result<(), BuildError> {
        let system = if with_system { "system" } else { "" };
        let arguments: Vec<&str> = [system].into_iter().chain(with_credentials.iter().copied()).collect();
        self.step(host, &self.family.sources.settle, &arguments, b"").await
    }

    async fn write(&self, host: &Host, file: &SourceFile) -> Result<(), BuildError> {
        self.step(host, &steps::WRITE_FILE, &[&file.path, file.mode, "root:root"], &file.content).await
    }

    async fn wait_stopped(&self, id: &str) -> Result<(), BuildError> {
        for _ in 0..600 {
            if self.builder.cloud.instance(id).await?.status == InstanceStatus::Stopped {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Err(kiln_cloud::Error::failed("the build instance did not shut down").into())
    }

    pub(crate) async fn step(
        &self,
        host: &Host,
        step: &Step,
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<(), BuildError> {
        self.script(host, step.says, step.script, arguments, stdin).await
    }

    /// Until it succeeds, or nobody wants to try again.
    async fn script(
        &self,
        host: &Host,
        says: &str,
        script: &str,
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<(), BuildError> {
        let builder = self.builder;
        loop {
            let outcome = self.try_script(host, says, script, arguments, stdin).await;
            let (Err(error), Some(ask)) = (&outcome, builder.ask) else { return outcome };
            if matches!(error, BuildError::Stopped) {
                return outcome;
            }
            let question = Question { failure: error.to_string(), host: host.clone() };
            if self.in_time(ask.choose(question)).await? == Choice::Abort {
                return outcome;
            }
            builder.say(&self.recipe.name, &format!("again: {says}"));
        }
    }

    async fn try_script(
        &self,
        host: &Host,
        says: &str,
        script: &str,
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<(), BuildError> {
        let builder = self.builder;
        let argv: Vec<&str> =
            ["sh", "-c", script, "sh"].into_iter().chain(arguments.iter().copied()).collect();
        let output = self.in_time(builder.ssh.output(host, &argv, stdin)).await??;
        if output.status == 0 {
            return Ok(());
        }
        // Some package managers say what went wrong on standard error, some on standard output.
        let lines: Vec<&str> = output.stdout.lines().chain(output.stderr.lines()).collect();
        let mut tail = lines[lines.len().saturating_sub(15)..].to_vec();
        let refusals = refusals(&self.recipe.sources, &lines.join("\n"));
        tail.extend(refusals.iter().map(String::as_str));
        let tail = tail.join("\n");
        let tail = self.logins.iter().fold(tail, |text, login| login.hide(&text));
        Err(BuildError::Step { step: says.to_string(), message: format!("exit {}\n{tail}", output.status) })
    }
}
