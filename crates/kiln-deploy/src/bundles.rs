//! Gathers the inputs of the site function: addresses and sizes from the cloud, the Slurm release from the
//! control node, the secrets from the store.

use std::collections::BTreeMap;

use kiln_cloud::{Gpus, Instance};
use kiln_image::built_as;
use kiln_site::services::{CLOUD_TOKEN, METRICS_TOKEN, dashboard, rest};
use kiln_site::{Exports, Given, Inventory, NodeFacts, NodeKeys, Secrets};
use kiln_spec::{Credentials, Group, Node, Role, Spec};
use kiln_wire::{
    CloudAccess, ElasticGroup, FleetFile, FleetMonitoring, FleetNode, InstanceDefaults, LaunchOption,
    SecretText, Timing, Version, WatchedNode,
};

use crate::addresses::reserved_addresses;
use crate::apply::Made;
use crate::configure::SSH_LIMIT;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::memory::usable_share;
use crate::observe::Observed;
use crate::plan::removal::has_its_flavor;
use crate::plan::{self, attachments, security_groups_of, share};
use crate::targets::{credentials, targets};
use crate::wait::boot_limit;

/// The images of compute nodes, by node, where those of the file are too new for the control node.
pub type KeptImages = BTreeMap<String, String>;

impl Deployment<'_> {
    pub(crate) async fn site_inputs(
        &self,
        observed: &Observed,
        keys: &BTreeMap<String, NodeKeys>,
        kiln_digest: &str,
        images: Option<&KeptImages>,
    ) -> Result<(Inventory, Secrets)> {
        let instances = observed.nodes();
        let kept = reserved_addresses(self.spec, observed)?;
        let switches = self.switches(observed).await?;
        let mut nodes = BTreeMap::new();
        for node in self.spec.nodes() {
            let instance = instances.get(node.name).copied();
            let address = kept.get(node.name).copied().or_else(|| instance?.address);
            let address = address.ok_or_else(|| Error::NoInstance(node.name.to_string()))?;
            // What the instance has, not what the file would like it to have. One that comes and goes may be of
            // another flavor each time; jobs are promised what the file says, except on one that is to go for its flavor.
            let has_own = |i: &&Instance| !node.elastic || !has_its_flavor(self.spec, &node, i);
            let flavor = instance.filter(has_own).map_or(node.flavor, |i| i.flavor.as_str());
            let features = features(self.spec, &node, flavor, observed);
            let gpus = flavor_gpus(self.spec, &node, flavor, observed);
            let flavor = observed.flavors.iter().find(|f| f.name == flavor);
            let (cpus, memory_mib) = flavor.map_or((1, 1024), |f| (f.cpus, f.memory_mib));
            let topology = flavor.and_then(|f| f.topology).map(|t| [t.sockets, t.cores, t.threads]);
            let ssh_host_public = keys.get(node.name).map(|k| k.ssh_host_public.clone()).unwrap_or_default();
            nodes.insert(
                node.name.to_string(),
                NodeFacts {
                    address,
                    cpus,
                    topology,
                    memory_mib,
                    real_memory_mib: usable_share(memory_mib),
                    gpus: gpus.map(|gpus| (gpus.count, gpus.model)),
                    switch: instance.and_then(|i| switches.get(&i.id)).cloned(),
                    features,
                    ssh_host_public,
                },
            );
        }
        let inventory = Inventory {
            nodes,
            release: self.release(observed, boot_limit(self.spec, SSH_LIMIT)).await?,
            architecture: std::env::consts::ARCH.to_string(),
            kiln: kiln_digest.to_string(),
            backup_volume: plan::control_has_backup_volume(self.spec, observed),
            exports: self.exports(observed)?,
        };
        let fleet_file = self.fleet_file_with(observed, images).await?;
        let secrets =
            Secrets::read(self.spec, |secret| self.secrets.read(secret), fleet_file, self.ssh_public_key()?)?;
        Ok((inventory, secrets.with_given(self.given_secrets()?)))
    }

    /// Where the cloud says that nodes are which stay. One that comes and goes is elsewhere the next time.
    async fn switches(&self, observed: &Observed) -> Result<BTreeMap<String, Vec<String>>> {
        let instances = observed.nodes();
        let stays = self.spec.nodes().filter(|node| node.role == Role::Compute && !node.elastic);
        let there: Vec<Instance> =
            stays.filter_map(|node| instances.get(node.name).map(|i| (*i).clone())).collect();
        if there.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(self.cloud.switches(&there).await?)
    }

    /// That all secrets are there, before anything is made.
    pub fn check_secrets(&self) -> Result<()> {
        self.secrets.ensure()?;
        self.check_dashboard()?;
        self.given_secrets().map(drop)
    }

    /// The secrets that the cluster file refers to.
    fn given_secrets(&self) -> Result<BTreeMap<Given, SecretText>> {
        let read = |(which, place): (Given, &Credentials)| {
            let value = credentials(place, self.file_dir()).and_then(|value| check_given(&which, value));
            Ok((which, value.map_err(Error::AlertCredentials)?))
        };
        Given::of(self.spec).into_iter().map(read).collect()
    }

    /// What kilnd does for Prometheus.
    fn fleet_monitoring(&self) -> Result<Option<FleetMonitoring>> {
        let Some(monitoring) = &self.spec.monitoring else { return Ok(None) };
        let token = self.secrets.read(&METRICS_TOKEN)?.expose_secret().trim().into();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the file's prices are in range"
        )]
        let millionths = |price: f64| (price * 1e6).round() as u64;
        let prices = monitoring.prices.iter().map(|(flavor, price)| (flavor.clone(), millionths(*price)));
        let rest = rest::is_on(self.spec).then(|| ("slurm-rest".to_string(), rest::AUTHORITY_FILE.into()));
        let shown = self.spec.dashboard.as_ref();
        let shown = shown.map(|_| ("dashboard".to_string(), dashboard::CERTIFICATE_FILE.into()));
        Ok(Some(FleetMonitoring {
            token,
            prices: prices.collect(),
            certificates: rest.into_iter().chain(shown).collect(),
        }))
    }

    /// Where only one node can have a volume, the control node shares them with the others.
    fn exports(&self, observed: &Observed) -> Result<Option<Exports>> {
        if self.spec.cloud.facts().shares_volumes {
            return Ok(None);
        }
        let network =
            observed.networks.first().ok_or_else(|| Error::NotReady("the network is missing".into()))?.cidr;
        let all = observed.volumes.iter().chain(observed.attached.values());
        let volumes = all.map(|volume| (volume.name.clone(), volume.id.clone())).collect();
        let mut file_systems = BTreeMap::new();
        for volume in &observed.volumes {
            let Some(served) = &volume.served else { continue };
            let not_yet = || Error::NotReady(format!("file system {} is not exported", volume.name));
            file_systems.insert(volume.name.clone(), served.at.clone().ok_or_else(not_yet)?);
        }
        Ok(Some(Exports { volumes, file_systems, network }))
    }

    /// The file that tells kilnd all it needs to rebuild or create a node without the deploy host.
    pub async fn fleet_file(&self, observed: &Observed) -> Result<SecretText> {
        self.fleet_file_with(observed, None).await
    }

    async fn fleet_file_with(
        &self,
        observed: &Observed,
        kept_images: Option<&KeptImages>,
    ) -> Result<SecretText> {
        let images = targets(self.spec, observed);
        let cluster_id = self.secrets.cluster_id()?;
        let token = self.secrets.read(&CLOUD_TOKEN)?;
        let access =
            self.cloud.access(&self.spec.name, token.expose_secret().trim(), &observed.networks).await?;
        let kept = reserved_addresses(self.spec, observed)?;
        let share = Made::default().share(&share(self.spec, observed))?;
        let mut nodes = BTreeMap::new();
        for node in self.spec.nodes().filter(|n| n.role == Role::Compute) {
            let fleet_node = FleetNode {
                group: node.group.to_string(),
                image: kept_images
                    .and_then(|images| images.get(node.name).cloned())
                    .or_else(|| images.get(node.image).cloned().flatten())
                    .or_else(|| former_image(&node, observed, cluster_id.as_deref()?)),
                user_data: self.user_data(node.name, Some(share.clone()))?,
                ssh_key: self.ssh_public_key()?,
                address: kept.get(node.name).copied(),
            };
            nodes.insert(node.name.to_string(), fleet_node);
        }
        let file = FleetFile {
            format: Version,
            cluster: self.spec.name.clone(),
            cluster_id,
            cloud: CloudAccess::new(&access).map_err(|e| Error::NotReady(e.to_string()))?,
            concurrency: self.spec.concurrency,
            rebuild_partitions: self.spec.rebuild.iter().map(|r| r.name.clone()).collect(),
            resume_timeout: kiln_site::longest_resume_timeout(self.spec).as_secs(),
            license: Some("rebuild".to_string()),
            instance_defaults: self.instance_defaults(observed)?,
            elastic: self.spec.compute.iter().filter_map(elastic_group).collect(),
            timing: self.timing(),
            notify: self.notify_settings()?,
            dashboard: self.dashboard_settings(observed)?,
            nodes,
            watched: self.watched(observed),
            monitoring: self.fleet_monitoring()?,
        };
        file.to_text().map_err(|e| Error::NotReady(e.to_string()))
    }

    /// Compute nodes are Slurm's to watch.
    fn watched(&self, observed: &Observed) -> BTreeMap<String, WatchedNode> {
        let instances = observed.nodes();
        let nodes = self.spec.nodes().filter(|node| node.role != Role::Compute);
        let watched = nodes.filter_map(|node| {
            let address = instances.get(node.name)?.address;
            let address = if node.role == Role::Control { None } else { Some(address?) };
            Some((node.name.to_string(), WatchedNode { address }))
        });
        watched.collect()
    }

    fn instance_defaults(&self, observed: &Observed) -> Result<Option<InstanceDefaults>> {
        let Some(node) = self.spec.nodes().find(|node| node.elastic) else { return Ok(None) };
        let network =
            observed.networks.first().ok_or_else(|| Error::NotReady("the network is missing".into()))?;
        Ok(Some(InstanceDefaults {
            network: network.id.clone(),
            security_groups: Made::default().ids(&security_groups_of(self.spec, observed, &node))?,
            volumes: Made::default().attachments(&attachments(self.spec, observed, &node))?,
        }))
    }

    fn timing(&self) -> Timing {
        let reconcile = &self.spec.reconcile;
        Timing {
            reconcile: reconcile.every.as_secs(),
            grace: reconcile.grace.as_secs(),
            newcomer: reconcile.newcomer.as_secs(),
            pause: reconcile.pause.as_secs(),
            failures: reconcile.failures,
        }
    }
}

/// What is wrong is told without the value.
fn check_given(which: &Given, value: SecretText) -> std::result::Result<SecretText, String> {
    let text = value.expose_secret().trim();
    let is_one_line = !text.is_empty() && !text.contains(char::is_control);
    let (is_right, otherwise) = match which {
        Given::Mail => {
            (text.contains(':'), "the login of [monitoring.mail] is not `USER:PASSWORD`".to_string())
        }
        Given::Webhook(name) => (
            text.starts_with("http://") || text.starts_with("https://"),
            format!("the address of [monitoring.webhook.{name}] is not a URL"),
        ),
    };
    if is_one_line && is_right { Ok(value) } else { Err(otherwise) }
}

/// What a node that comes and goes gets while its image is not built: what it had before. Others keep what they have.
fn former_image(node: &Node<'_>, observed: &Observed, cluster_id: &str) -> Option<String> {
    let mut built = built_as(&observed.images, node.image, cluster_id).into_iter().filter(|_| node.elastic);
    built.next().map(|image| image.id.clone())
}

/// The features of the node's flavor. A node that may be created with one of several flavors has those common to all.
fn features(spec: &Spec, node: &Node<'_>, flavor: &str, observed: &Observed) -> Vec<String> {
    let of = |name: &str| observed.flavors.iter().find(|f| f.name == name).map(|f| f.features.as_slice());
    let group = spec.compute_group(node.group).filter(|_| node.role == Role::Compute);
    let others = group.and_then(|g| g.elastic.as_ref()).map(|e| e.flavors.as_slice()).unwrap_or_default();
    let everywhere = |feature: &String| {
        others.iter().all(|other| of(other).is_some_and(|features| features.contains(feature)))
    };
    of(flavor).unwrap_or_default().iter().filter(|feature| everywhere(feature)).cloned().collect()
}

/// The GPUs of the node's flavor. A node that may be created with one of several flavors has as many as each of them has,
/// if they are of one model.
pub(crate) fn flavor_gpus(spec: &Spec, node: &Node<'_>, flavor: &str, observed: &Observed) -> Option<Gpus> {
    let of = |name: &str| observed.flavors.iter().find(|f| f.name == name).and_then(|f| f.gpus.clone());
    let group = spec.compute_group(node.group).filter(|_| node.role == Role::Compute);
    let others = group.and_then(|g| g.elastic.as_ref()).map(|e| e.flavors.as_slice()).unwrap_or_default();
    others.iter().try_fold(of(flavor)?, |least, other| {
        let other = of(other).filter(|other| other.model == least.model)?;
        Some(if other.count < least.count { other } else { least })
    })
}

/// Zones first, then other flavors: a node of another size is the last resort.
fn elastic_group(group: &Group) -> Option<(String, ElasticGroup)> {
    let elastic = group.elastic.as_ref()?;
    let flavors = std::iter::once(&group.flavor).chain(&elastic.flavors);
    let zones: Vec<Option<&String>> =
        if group.zones.is_empty() { vec![None] } else { group.zones.iter().map(Some).collect() };
    let options = flavors.flat_map(|flavor| {
        zones
            .iter()
            .map(|zone| LaunchOption { flavor: flavor.clone(), zone: zone.cloned() })
            .collect::<Vec<_>>()
    });
    let always_up = group.nodes.iter().take(elastic.min).cloned().collect();
    Some((group.name.clone(), ElasticGroup { launch_options: options.collect(), always_up }))
}

#[cfg(test)]
mod tests {
    use kiln_cloud::Flavor;
    use kiln_wire::labels::image as property;

    use super::*;

    #[test]
    fn what_the_file_refers_to_is_checked_and_not_shown() {
        let check = |which: Given, text: &str| check_given(&which, text.into()).map(drop);
        let webhook = || Given::Webhook("a".into());
        assert_eq!(check(Given::Mail, "me:word\n"), Ok(()));
        assert_eq!(check(webhook(), "https://x/s3cret\n"), Ok(()));
        for (which, text) in [(Given::Mail, "s3cret"), (webhook(), "s3cret"), (webhook(), "http://x\ns3cret")]
        {
            let said = check(which, text).unwrap_err();
            assert!(said.contains("[monitoring.") && !said.contains("s3cret"), "{said}");
        }
    }

    #[test]
    fn a_node_has_what_each_of_its_flavors_has() {
        let flavor = |name: &str, features: &[&str]| Flavor {
            name: name.into(),
            cpus: 1,
            memory_mib: 1024,
            features: features.iter().map(ToString::to_string).collect(),
            topology: None,
            gpus: None,
        };
        let observed = Observed {
            flavors: vec![flavor("a", &["shape=a", "vgpu", "pci=x"]), flavor("b", &["shape=b", "vgpu"])],
            ..Observed::default()
        };
        let told = |text: &str| {
            let cluster =
                "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.e]\nnodes = \"e-0\"\n";
            let spec = kiln_spec::parse(&format!("{cluster}{text}"), "f").unwrap_or_else(|e| panic!("{e}"));
            let node = spec.node("e-0").unwrap();
            features(&spec, &node, node.flavor, &observed)
        };
        assert_eq!(told("flavor = \"a\"\n"), ["shape=a", "vgpu", "pci=x"]);
        assert_eq!(told("flavor = \"a\"\nelastic = { flavors = [\"b\"] }\n"), ["vgpu"]);
    }

    #[test]
    fn elastic_nodes_have_an_image_while_theirs_is_not_built() {
        let text = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[image.default]\n[compute.f]\nnodes = \"f-0\"\n\
                    [compute.e]\nnodes = \"e-0\"\nelastic = {}\n";
        let spec = kiln_spec::parse(text, "f").unwrap_or_else(|e| panic!("{e}"));
        let properties =
            [(property::RECIPE, "older"), (property::NAME, "default"), (property::BUILT_FOR, "id")];
        let image = kiln_cloud::Image {
            id: "i-1".into(),
            name: "default-1".into(),
            labels: kiln_cloud::Labels::new(),
            properties: properties.map(|(key, value)| (key.to_string(), value.to_string())).into(),
            size_bytes: 0,
            created: jiff::Timestamp::UNIX_EPOCH,
        };
        let observed = Observed { images: vec![image], ..Observed::default() };
        assert_eq!(targets(&spec, &observed)["default"], None, "the file wants another one");
        let of = |node: &str, cluster: &str| former_image(&spec.node(node).unwrap(), &observed, cluster);
        assert_eq!(of("e-0", "id").as_deref(), Some("i-1"));
        assert_eq!((of("e-0", "another"), of("f-0", "id")), (None, None));
    }
}
