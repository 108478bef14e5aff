//! Gathers what the site function wants to know: addresses and sizes from the cloud, the Slurm release from the
//! control node's image, the secrets from the store.

use std::collections::BTreeMap;

use kiln_image::Manifest;
use kiln_site::{Inventory, NodeFacts, NodeKeys, Secrets};
use kiln_slurm::Release;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::secrets::SecretKind;

impl Deployment<'_> {
    pub(crate) fn site_inputs(
        &self,
        observed: &Observed,
        keys: &BTreeMap<String, NodeKeys>,
    ) -> Result<(Inventory, Secrets)> {
        let instances = observed.nodes();
        let mut nodes = BTreeMap::new();
        for node in self.spec.nodes() {
            let instance = instances.get(node.name).copied();
            let instance = instance.ok_or_else(|| Error::NoInstance(node.name.to_string()))?;
            let address = instance.address.ok_or_else(|| Error::NoInstance(node.name.to_string()))?;
            // What the instance has, not what the file would like it to have.
            let flavor = observed.flavors.iter().find(|f| f.name == instance.flavor);
            let (cpus, memory_mib) = flavor.map_or((1, 1024), |f| (f.cpus, f.memory_mib));
            let ssh_host_public = keys.get(node.name).map(|k| k.ssh_host_public.clone()).unwrap_or_default();
            nodes.insert(node.name.to_string(), NodeFacts { address, cpus, memory_mib, ssh_host_public });
        }
        let api_url = observed.networks.iter().find_map(|n| n.api_url.clone()).unwrap_or_default();
        let inventory = Inventory { nodes, release: self.release(observed)?, api_url };
        let secrets = Secrets {
            munge_key_base64: self.secrets.read(SecretKind::MungeKey)?,
            database_password: self.secrets.read(SecretKind::DatabasePassword)?,
            cloud_token: self.secrets.read(SecretKind::CloudToken)?,
            ssh_public_key: self.ssh_public_key()?,
        };
        Ok((inventory, secrets))
    }

    fn release(&self, observed: &Observed) -> Result<Release> {
        let control = self.spec.control.node.as_str();
        let instance =
            observed.nodes().get(control).copied().ok_or_else(|| Error::NoInstance(control.to_string()))?;
        let image = observed.images.iter().find(|i| Some(&i.id) == instance.image.as_ref());
        let manifest = image.and_then(Manifest::of);
        manifest.and_then(|m| m.slurm()).ok_or_else(|| Error::NoSlurm(self.spec.control.image.clone()))
    }
}
