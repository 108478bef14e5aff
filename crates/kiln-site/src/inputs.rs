//! What the site function is given besides the spec.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kiln_slurm::Release;
use kiln_spec::{Credentials, Spec, WebhookAddress};
use kiln_wire::SecretText;

use crate::secret::Secret;
use crate::services;

/// What the cloud knows of the cluster's nodes.
#[derive(Debug, Clone)]
pub struct Inventory {
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Slurm in the control node's image.
    pub release: Release,
    /// Of all nodes: they run the same `kiln` binary.
    pub architecture: String,
    /// Names the `kiln` binary that the nodes run.
    pub kiln: String,
    /// The control node's instance has the volume for backups, if the cluster has one.
    pub backup_volume: bool,
    /// `None`: every node has the cluster's volumes itself.
    pub exports: Option<Exports>,
}

/// Where a volume is one node's disk: the control node has them and shares them, as far as the cloud does not do that itself.
#[derive(Debug, Clone)]
pub struct Exports {
    /// Ids of the volumes, by name.
    pub volumes: BTreeMap<String, String>,
    /// Where file systems of the cloud are mounted from, `ADDRESS:/PATH`, by name.
    pub file_systems: BTreeMap<String, String>,
    /// Whom to share them with.
    pub network: ipnet::Ipv4Net,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    pub address: IpAddr,
    pub cpus: u32,
    /// Sockets, cores of each, threads of each, where the flavor says so.
    pub topology: Option<[u32; 3]>,
    /// Of its flavor.
    pub memory_mib: u64,
    /// For jobs: what Slurm is told.
    pub real_memory_mib: u64,
    /// How many GPUs its flavor has and their model, as far as the cloud says.
    pub gpus: Option<(u32, Option<String>)>,
    /// Its switch, last, and those above it, where the cloud says so.
    pub switch: Option<Vec<String>>,
    /// What the cloud says of its flavor, for jobs to choose by.
    pub features: Vec<String>,
    /// Public.
    pub ssh_host_public: String,
}

/// A secret of the site that the cluster file refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Given {
    /// `USER:PASSWORD` for the mail server of alerts.
    Mail,
    /// The address of the webhook of this name.
    Webhook(String),
}

impl Given {
    /// Those of the file, and where each is.
    pub fn of(spec: &Spec) -> Vec<(Given, &Credentials)> {
        let Some(monitoring) = &spec.monitoring else { return Vec::new() };
        let mail = monitoring.mail.iter().filter_map(|mail| Some((Given::Mail, mail.credentials.as_ref()?)));
        let webhooks = monitoring.webhooks.iter().filter_map(|webhook| match &webhook.address {
            WebhookAddress::Plain(_) => None,
            WebhookAddress::Secret(place) => Some((Given::Webhook(webhook.name.clone()), place)),
        });
        mail.chain(webhooks).collect()
    }
}

/// The secrets that end up on nodes.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// By name.
    values: BTreeMap<&'static str, SecretText>,
    /// What the file names, and does not have itself.
    given: BTreeMap<Given, SecretText>,
    /// What kilnd is told of the fleet: the cloud's address and token, each compute node's target and user data.
    pub fleet_file: SecretText,
    /// Kiln's own key for root; public.
    pub ssh_public_key: String,
}

impl Secrets {
    /// Reads those secrets of the cluster's services that are written on nodes.
    pub fn read<E>(
        spec: &Spec,
        mut value: impl FnMut(&Secret) -> Result<SecretText, E>,
        fleet_file: SecretText,
        ssh_public_key: String,
    ) -> Result<Self, E> {
        let on_nodes = services::secrets_of(spec).into_iter().filter(|secret| secret.on_nodes);
        let values = on_nodes.map(|secret| Ok((secret.name, value(secret)?))).collect::<Result<_, E>>()?;
        Ok(Secrets { values, given: BTreeMap::new(), fleet_file, ssh_public_key })
    }

    /// With those of [`Given::of`].
    #[must_use]
    pub fn with_given(mut self, given: BTreeMap<Given, SecretText>) -> Self {
        self.given = given;
        self
    }

    pub(crate) fn given(&self, which: &Given) -> &str {
        self.given.get(which).map_or("", SecretText::expose_secret)
    }

    /// The value of a secret that is on nodes.
    pub(crate) fn value(&self, secret: &Secret) -> &str {
        // Every secret of a service was read.
        self.values.get(secret.name).map_or("", SecretText::expose_secret)
    }
}

/// The keys that are one node's alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeKeys {
    pub seal_key: SecretText,
    /// Public.
    pub seal_recipient: String,
    /// The public half of the deploy host's key, the same for all nodes.
    pub sender_key: String,
    pub ssh_host_key: SecretText,
    pub ssh_host_public: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let value = |secret: &Secret| Ok::<_, ()>(format!("s3cret {}", secret.name).into());
        let spec = kiln_spec::parse(
            "[cluster]\nname = \"x\"\n[cloud]\nkind = \"local\"\n[compute.x]\nnodes = \"x1\"\n[image.default]\nsource = \"trixie\"\n",
            "cluster.toml",
        );
        let secrets = Secrets::read(&spec.unwrap(), value, "s3cret".into(), "ssh-ed25519 A".into()).unwrap();
        let keys = NodeKeys {
            seal_key: "s3cret".into(),
            seal_recipient: "public".into(),
            sender_key: "public".into(),
            ssh_host_key: "s3cret".into(),
            ssh_host_public: "public".into(),
        };
        let shown = format!("{secrets:?} {keys:?}");
        assert!(shown.contains("munge-key") && shown.contains("database-password"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
