//! What the cloud has of this cluster, read in a few listing calls.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use kiln_cloud::{Flavor, Image, Instance, InstanceStatus, Network, SecurityGroup, Volume};
use kiln_image::{Manifest, is_of_kiln};
use kiln_site::{Purpose, volume_name};
use kiln_slurm::Release;
use kiln_spec::{ImageSource, Spec};
use kiln_wire::labels;

use crate::accounting::Accounts;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::node_of;
use crate::plan::releases;
use crate::slurm_view::SlurmView;
use crate::targets::targets;

/// How long a control node may take to answer that a plan can do without.
pub(crate) const ASK_LIMIT: Duration = Duration::from_secs(15);

/// Everything `plan` needs to know about the cloud.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub networks: Vec<Network>,
    pub security_groups: Vec<SecurityGroup>,
    pub volumes: Vec<Volume>,
    pub instances: Vec<Instance>,
    pub images: Vec<Image>,
    pub flavors: Vec<Flavor>,
    /// The instance that builds an image, if one is there.
    pub build: Option<Instance>,
    /// Addresses of the network that others use, each with its user. Read only if the address of a node is fixed: by the file,
    /// by elasticity, or by the control node that was there.
    pub foreign: BTreeMap<IpAddr, String>,
    /// Volumes that the file attaches but Kiln does not manage, by name.
    pub attached: BTreeMap<String, Volume>,
    /// The Slurm of the control node by its own word, where its image does not say: it may be gone from the cloud.
    pub releases: BTreeMap<String, Release>,
    /// What the control node says of its accounts, where the file has a slurmdbd elsewhere.
    pub accounts: Accounts,
    /// What Slurm says of the nodes that are to go.
    pub slurm: SlurmView,
}

impl Observed {
    /// Instances by their node. A broken one counts only if the node has no other.
    pub fn nodes(&self) -> BTreeMap<&str, &Instance> {
        let is_broken = |i: &&Instance| matches!(i.status, InstanceStatus::Error { .. });
        let (broken, well): (Vec<&Instance>, Vec<&Instance>) = self.instances.iter().partition(is_broken);
        let named = |i: &'_ Instance| i.labels.contains_key(labels::NODE);
        let all = broken.into_iter().chain(well).filter(|i| named(i));
        all.map(|i| (node_of(i), i)).collect()
    }

    /// The volume of the cluster's state, if it has one.
    pub fn state_volume(&self, spec: &Spec) -> Option<&Volume> {
        if spec.volumes.state == kiln_spec::Volume::None {
            return None;
        }
        let name = volume_name(spec, Purpose::State);
        self.volumes.iter().find(|volume| volume.name == name).or_else(|| self.attached.get(&name))
    }

    pub fn image_name(&self, id: &str) -> String {
        self.images.iter().find(|i| i.id == id).map_or_else(|| id.to_string(), |i| i.name.clone())
    }
}

impl Deployment<'_> {
    pub async fn observe(&self) -> Result<Observed> {
        let cluster = self.spec.name.as_str();
        let fallbacks = self.spec.compute.iter().filter_map(|group| group.elastic.as_ref());
        let fallbacks = fallbacks.flat_map(|elastic| elastic.flavors.iter().cloned());
        let wanted_flavors: Vec<String> =
            self.spec.nodes().map(|node| node.flavor.to_string()).chain(fallbacks).collect();
        // The futures of six listings are large, so they are kept on the heap.
        let listings = Box::pin(async {
            tokio::try_join!(
                self.cloud.networks(cluster),
                self.cloud.security_groups(cluster),
                self.cloud.volumes(cluster),
                self.cloud.instances(cluster),
                self.cloud.images(),
                self.cloud.flavors_named(&wanted_flavors),
            )
        });
        let (networks, security_groups, volumes, instances, images, flavors) = listings.await?;
        let network = match self.spec.cloud.existing_network() {
            Some(name) => self.cloud.network_by_name(name).await?,
            None => None,
        };
        // Networks and instances of an image build belong to the builder.
        let of_nodes = |labels: &kiln_cloud::Labels| {
            labels.get(labels::ROLE).is_none_or(|role| role != labels::BUILD_ROLE)
        };
        // A network that the file names comes first: the cluster uses that one.
        let networks: Vec<Network> =
            network.into_iter().chain(networks.into_iter().filter(|n| of_nodes(&n.labels))).collect();
        let is_control = |i: &Instance| node_of(i) == self.spec.control.node;
        let fixes_addresses = self.spec.nodes().any(|node| node.elastic || node.address.is_some());
        let foreign = match networks.first() {
            // A new control node is to have the address of the last one.
            Some(network) if fixes_addresses || !instances.iter().any(is_control) => {
                self.cloud.foreign_addresses(&network.id, cluster).await?
            }
            _ => BTreeMap::new(),
        };
        let mut attached = BTreeMap::new();
        for volume in [&self.spec.volumes.state, &self.spec.volumes.home] {
            if let kiln_spec::Volume::Attach { name } = volume
                && let Some(found) = self.cloud.volume_by_name(name).await?
            {
                attached.insert(name.clone(), found);
            }
        }
        let build = instances.iter().find(|i| !of_nodes(&i.labels)).cloned();
        let images = self.relevant(images, &instances);
        Ok(Observed {
            build,
            networks,
            foreign,
            security_groups: security_groups.into_iter().filter(|g| of_nodes(&g.labels)).collect(),
            volumes,
            instances: instances.into_iter().filter(|i| of_nodes(&i.labels)).collect(),
            images,
            flavors,
            attached,
            releases: BTreeMap::new(),
            accounts: Accounts::default(),
            slurm: SlurmView::NotAsked,
        })
    }

    /// Asks the control node for its Slurm where no image tells. One that does not answer must still be replaceable.
    pub(crate) async fn ask_release(&self, observed: &mut Observed) {
        if !releases::are_known(self.spec, observed, &targets(self.spec, observed)) {
            return;
        }
        let control = self.spec.control.node.as_str();
        let Some(instance) = observed.nodes().get(control).copied() else { return };
        let image = observed.images.iter().find(|image| Some(&image.id) == instance.image.as_ref());
        if image.and_then(Manifest::of).is_some() || instance.status != InstanceStatus::Active {
            return;
        }
        if let Ok(release) = self.release(observed, ASK_LIMIT).await {
            observed.releases.insert(control.to_string(), release);
        }
    }

    /// The Slurm of the control node, by its own word.
    pub(crate) async fn release(&self, observed: &Observed, limit: Duration) -> Result<Release> {
        let control = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        let answer = self.ssh()?.wait_output(&control, &["slurmctld", "-V"], limit).await?;
        Release::from_version_line(&answer.stdout).map_err(|_| Error::NoSlurm(control.name))
    }

    /// Kiln's own images, those that the file names and those that nodes run, newest first.
    fn relevant(&self, mut images: Vec<Image>, instances: &[Instance]) -> Vec<Image> {
        let named: Vec<&str> = (self.spec.images.values())
            .filter_map(|image| match &image.source {
                ImageSource::Prebuilt(name) | ImageSource::Cloud(name) => Some(name.as_str()),
                ImageSource::System(_) | ImageSource::Image(_) => None,
            })
            .collect();
        images.retain(|image| {
            is_of_kiln(image)
                || named.iter().any(|name| image.name == *name || image.id == *name)
                || instances.iter().any(|i| i.image.as_ref() == Some(&image.id))
        });
        images.sort_by_key(|image| std::cmp::Reverse(image.created));
        images
    }
}
