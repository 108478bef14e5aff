//! Carries out a plan: stage by stage, each with bounded concurrency. Every operation can be repeated, so a run
//! that was cut is simply run again.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_cloud::{
    Attachment, Instance, Labels, NewInstance, NewNetwork, NewSecurityGroup, NewVolume, Rebuild, label,
};
use kiln_image::Event;
use kiln_site::bundle::MountSource;
use kiln_site::{Identity, UserData, volume_name};
use kiln_spec::{ImageUpdate, Node, Role, Volume};

use crate::addresses::automatic;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::{bounded, node_of};
use crate::observe::Observed;
use crate::plan::{
    Action, CONTROL_STAGE, LAST_STAGE, Plan, cluster_group, group_label, login_group, plan, rules,
};
use crate::secrets::SecretKind;
use crate::targets::{Targets, targets};

/// How long services on a node may take to end before the node is rebuilt.
const QUIET_LIMIT: Duration = Duration::from_secs(60);

impl Deployment<'_> {
    pub async fn plan(&self) -> Result<Plan> {
        // Only here: a key pair, for one, is its owner's alone, and others may look at the cluster, too.
        self.cloud.check().await?;
        let observed = self.observe().await?;
        plan(self.spec, &observed, &targets(self.spec, &observed))
    }

    /// Carries out `plan`. Images must be there already.
    pub async fn apply(&self, plan: &Plan) -> Result<()> {
        self.secrets.ensure()?;
        plan.check_images()?;
        for stage in 0..=LAST_STAGE {
            if stage == CONTROL_STAGE {
                // Who may not do this is told before servers are made. Its secret reaches the control node with `configure`.
                self.grant().await?;
            }
            let actions: Vec<&Action> = plan.actions.iter().filter(|a| a.stage() == stage).collect();
            if actions.is_empty() {
                continue;
            }
            self.check_stop()?;
            // Later stages use what earlier ones made.
            let observed = self.observe().await?;
            let images = targets(self.spec, &observed);
            let results =
                bounded(actions, self.spec.concurrency, |action| self.carry_out(action, &observed, &images))
                    .await;
            collect(results)?;
        }
        self.wait_active().await
    }

    /// Lets the control node do its part.
    pub(crate) async fn grant(&self) -> Result<()> {
        let token = self.secrets.read(SecretKind::CloudToken)?;
        Ok(self.cloud.grant(&self.spec.name, token.trim()).await?)
    }

    async fn carry_out(&self, action: &Action, observed: &Observed, images: &Targets) -> Result<()> {
        let done = |item: String, text: &str| (self.progress)(Event::done(item, text));
        match action {
            Action::BuildImage { .. } => {}
            Action::CreateNetwork { name, cidr, lacks } => {
                let cidr = cidr.as_deref().and_then(|text| text.parse().ok());
                let automatic = cidr.and_then(|cidr| automatic(self.spec, cidr));
                let new = NewNetwork { name: name.clone(), cidr, labels: self.labels(), automatic };
                self.cloud.create_network(new).await?;
                done(format!("network {name}"), if lacks.is_some() { "completed" } else { "created" });
            }
            Action::KeepAddresses { network, automatic } => {
                let found = observed.networks.iter().find(|n| n.name == *network);
                let found = found.ok_or_else(|| Error::NotReady("the network is missing".into()))?;
                self.cloud.set_automatic(&found.id, *automatic).await?;
                done(format!("network {network}"), "addresses kept");
            }
            Action::CreateSecurityGroup { name, login, unfinished } => {
                self.cloud.create_security_group(self.security_group(name, *login, observed)?).await?;
                done(format!("security group {name}"), if *unfinished { "completed" } else { "created" });
            }
            Action::CreateVolume { name, size_gib, .. } => {
                let new = NewVolume { name: name.clone(), size_gib: *size_gib, labels: self.labels() };
                self.cloud.create_volume(new).await?;
                done(format!("volume {name}"), "created");
            }
            Action::CreateInstances { nodes, .. } => self.create(nodes, observed, images).await?,
            Action::RebuildInstances { nodes, .. } => self.rebuild(nodes, observed, images).await?,
            Action::LeaveToSlurm { nodes, group, .. } => {
                self.record_target(nodes, observed, images).await?;
                done(group.clone(), "image change left to Slurm");
            }
            Action::StartInstances { nodes, .. } => {
                self.each(
                    nodes,
                    observed,
                    |instance| async move { self.cloud.start(&instance.id).await.map(drop) },
                    "started",
                )
                .await?;
            }
            Action::DeleteInstances { ids, .. } => self.delete(ids, observed).await?,
        }
        Ok(())
    }

    /// Runs one cloud operation for the instance of each of these nodes.
    async fn each<'o, F>(
        &self,
        nodes: &[String],
        observed: &'o Observed,
        operation: impl Fn(&'o Instance) -> F,
        text: &str,
    ) -> Result<()>
    where
        F: Future<Output = kiln_cloud::Result<()>>,
    {
        let chosen = observed.instances.iter().filter(|i| nodes.iter().any(|n| n == node_of(i))).collect();
        let operation = &operation;
        let results = bounded(chosen, self.spec.concurrency, |instance: &'o Instance| async move {
            self.check_stop()?;
            operation(instance).await?;
            (self.progress)(Event::done(node_of(instance), text));
            Ok(())
        })
        .await;
        collect(results)
    }

    async fn delete(&self, ids: &[String], observed: &Observed) -> Result<()> {
        let gone = |id: &str| {
            let node = observed.instances.iter().find(|i| i.id == id).map_or(id, |i| node_of(i));
            (self.progress)(Event::done(node, "deleted"));
        };
        collect(self.cloud.delete_all(ids, &gone).await.into_iter().map(|r| r.map_err(Error::from)).collect())
    }

    async fn create(&self, nodes: &[String], observed: &Observed, images: &Targets) -> Result<()> {
        let mut failures = Vec::new();
        for batch in nodes.chunks(self.spec.concurrency.max(1)) {
            self.check_stop()?;
            let new = batch
                .iter()
                .map(|name| self.new_instance(name, observed, images))
                .collect::<Result<Vec<_>>>()?;
            for (name, result) in batch.iter().zip(self.cloud.create(new).await) {
                match result {
                    Ok(_) => (self.progress)(Event::working(name, "booting")),
                    Err(error) => {
                        (self.progress)(Event::failed(name, error.chain()));
                        failures.push(Err(Error::from(error)));
                    }
                }
            }
        }
        collect(failures)
    }

    async fn rebuild(&self, nodes: &[String], observed: &Observed, images: &Targets) -> Result<()> {
        let existing = observed.nodes();
        let results = bounded(nodes.iter().collect(), self.spec.concurrency, |name: &String| {
            let instance = existing.get(name.as_str()).copied();
            async move {
                self.check_stop()?;
                let instance = instance.ok_or_else(|| Error::NoInstance(name.clone()))?;
                let node = self.spec.node(name).ok_or_else(|| Error::UnknownNode(name.clone()))?;
                if node.role == Role::Control {
                    self.quiet_control(observed).await;
                }
                (self.progress)(Event::working(name, "rebuilding"));
                let image = target(images, &node)?;
                let rebuild = Rebuild {
                    labels: self.node_labels(&node, &image),
                    user_data: self.user_data(&node, observed)?,
                    ssh_key: self.ssh_public_key()?,
                    image,
                };
                self.cloud.rebuild(&instance.id, rebuild).await?;
                Ok(())
            }
        })
        .await;
        collect(results)
    }

    /// Lets slurmctld and the database write down what they know before their machine is taken away. Best effort: a
    /// control node that is already broken must still be replaceable.
    async fn quiet_control(&self, observed: &Observed) {
        let name = self.spec.control.node.as_str();
        (self.progress)(Event::working(name, "stopping Slurm's daemons"));
        let Ok(ssh) = self.ssh() else { return };
        let Ok(hosts) = self.hosts(observed, std::iter::once(name)) else { return };
        for host in hosts {
            let argv = ["systemctl", "stop", "slurmctld.service", "slurmdbd.service", "mariadb.service"];
            let _ = tokio::time::timeout(QUIET_LIMIT, ssh.output(&host, &argv, b"")).await;
        }
    }

    async fn record_target(&self, nodes: &[String], observed: &Observed, images: &Targets) -> Result<()> {
        let record = |instance| async move {
            let instance: &Instance = instance;
            let image = self.spec.node(node_of(instance)).and_then(|node| target(images, &node).ok());
            let target = image.map(|image| (label::TARGET_IMAGE.to_string(), image));
            self.cloud.add_labels(&instance.id, target.into_iter().collect()).await.map(drop)
        };
        self.each(nodes, observed, record, "target recorded").await
    }

    fn new_instance(&self, name: &str, observed: &Observed, images: &Targets) -> Result<NewInstance> {
        let node = self.spec.node(name).ok_or_else(|| Error::UnknownNode(name.to_string()))?;
        let network =
            observed.networks.first().ok_or_else(|| Error::NotReady("the network is missing".into()))?;
        let image = target(images, &node)?;
        Ok(NewInstance {
            name: name.to_string(),
            flavor: node.flavor.to_string(),
            network: network.id.clone(),
            address: node.address,
            public: node.role == Role::Login,
            zone: node.zone.map(String::from),
            security_groups: self.security_groups_of(&node, observed),
            user_data: self.user_data(&node, observed)?,
            ssh_key: self.ssh_public_key()?,
            labels: self.node_labels(&node, &image),
            volumes: self.attachments(&node, observed)?,
            image,
        })
    }

    /// Ids.
    pub(crate) fn security_groups_of(&self, node: &Node<'_>, observed: &Observed) -> Vec<String> {
        let wanted = match node.role {
            Role::Login => vec![cluster_group(self.spec), login_group(self.spec)],
            Role::Control | Role::Compute => vec![cluster_group(self.spec)],
        };
        observed.security_groups.iter().filter(|g| wanted.contains(&g.name)).map(|g| g.id.clone()).collect()
    }

    pub(crate) fn user_data(&self, node: &Node<'_>, observed: &Observed) -> Result<String> {
        let keys = self.keys()?.node(node.name)?;
        let identity = Identity {
            cluster: self.spec.name.clone(),
            node: node.name.to_string(),
            role: node.role.as_str().to_string(),
            domain: self.spec.domain.clone(),
            build: false,
            seal_key: Some(keys.seal_identity),
            ssh_host_key: Some(keys.ssh_host_key),
            share: if node.role == Role::Compute { Some(self.share(observed)?) } else { None },
        };
        UserData { kiln: identity }.to_text(self.has_cloud_init()).map_err(|e| Error::NotReady(e.to_string()))
    }

    /// Where compute nodes find the share.
    fn share(&self, observed: &Observed) -> Result<MountSource> {
        if self.spec.cloud.shares_volumes() {
            return Ok(MountSource::Volume(volume_name(self.spec, "share")));
        }
        let control = self.spec.control.node.as_str();
        let address = observed.nodes().get(control).and_then(|instance| instance.address);
        let address = address.ok_or_else(|| Error::NoInstance(control.to_string()))?;
        Ok(MountSource::Nfs(format!("{address}:{}", kiln_site::SHARE)))
    }

    /// Local volumes are directories that several instances may have at once, so the share and the home directories
    /// reach the nodes as volumes too. Elsewhere they are the control node's, which exports them.
    pub(crate) fn attachments(&self, node: &Node<'_>, observed: &Observed) -> Result<Vec<Attachment>> {
        let mut wanted: Vec<(&str, bool)> = vec![];
        if node.role != Role::Control && !self.spec.cloud.shares_volumes() {
            return Ok(Vec::new());
        }
        if self.spec.volumes.home != Volume::None {
            wanted.push(("home", false));
        }
        match node.role {
            Role::Control => {
                wanted.push(("share", false));
                if self.spec.volumes.state != Volume::None {
                    wanted.push(("state", false));
                }
            }
            Role::Compute => wanted.push(("share", true)),
            Role::Login => {}
        }
        wanted
            .into_iter()
            .map(|(purpose, read_only)| {
                let name = volume_name(self.spec, purpose);
                let volume =
                    observed.volumes.iter().find(|v| v.name == name).or_else(|| observed.attached.get(&name));
                let volume = volume.ok_or_else(|| Error::NoVolume(name.clone()))?.id.clone();
                Ok(Attachment { volume, read_only })
            })
            .collect()
    }

    fn security_group(&self, name: &str, login: bool, observed: &Observed) -> Result<NewSecurityGroup> {
        let network =
            observed.networks.first().ok_or_else(|| Error::NotReady("the network is missing".into()))?;
        let rules = rules(login, network);
        Ok(NewSecurityGroup { name: name.to_string(), labels: self.labels(), rules })
    }

    fn labels(&self) -> Labels {
        BTreeMap::from([(label::CLUSTER.to_string(), self.spec.name.clone())])
    }

    fn node_labels(&self, node: &Node<'_>, image: &str) -> Labels {
        let mut labels = self.labels();
        labels.insert(label::NODE.into(), node.name.to_string());
        labels.insert(label::ROLE.into(), node.role.as_str().to_string());
        labels.insert(label::GROUP.into(), group_label(node));
        if node.image_update == ImageUpdate::Slurm {
            labels.insert(label::TARGET_IMAGE.into(), image.to_string());
        }
        labels
    }
}

fn target(images: &Targets, node: &Node<'_>) -> Result<String> {
    images.get(node.image).cloned().flatten().ok_or_else(|| Error::ImageNotBuilt(node.image.to_string()))
}

/// One error out of many results; being asked to stop goes before the rest.
pub(crate) fn collect(results: Vec<Result<()>>) -> Result<()> {
    let all = results.len();
    let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    if let Some(at) = errors.iter().position(|e| matches!(e, Error::Stopped)) {
        return Err(errors.swap_remove(at));
    }
    match errors.len() {
        0 => Ok(()),
        1 if all == 1 => Err(errors.swap_remove(0)),
        failed => {
            let details = errors.iter().map(|e| format!("  {}", e.chain())).collect::<Vec<_>>().join("\n");
            let hint = errors.iter().find_map(Error::hint);
            Err(Error::Operations { failed, all, details, hint })
        }
    }
}
