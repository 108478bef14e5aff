//! The pure function that makes all configuration: spec, inventory and secrets in, one bundle per node out.
//! The same bundle is pushed when the cluster is configured and pulled when a node boots. No I/O happens here.

mod accounting;
mod common;
mod fleet;
mod inputs;
mod power;
mod roles;
mod slurm_conf;
mod slurm_files;
mod storage;
mod timeouts;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kiln_spec::{Role, Spec};

use kiln_wire::make;
// For a while: these are kiln-wire's.
pub use inputs::{Exports, Inventory, NodeFacts, NodeKeys, Secrets};
pub use kiln_wire::{Bundle, Identity, Resource, UserData, bundle, identity};
pub use roles::{SHARE, volume_name};
use slurm_conf::SlurmConf;
pub use timeouts::{longest_resume_timeout, resume_timeout};

/// The configuration of one cluster. Bundles are made when asked for: at ten thousand nodes they do not fit
/// into memory together.
pub struct Site<'a> {
    spec: &'a Spec,
    inventory: &'a Inventory,
    secrets: &'a Secrets,
    slurm: SlurmConf,
}

pub fn site<'a>(spec: &'a Spec, inventory: &'a Inventory, secrets: &'a Secrets) -> Site<'a> {
    let slurm = slurm_conf::slurm_conf(spec, inventory);
    Site { spec, inventory, secrets, slurm }
}

impl Site<'_> {
    /// `None` for a node the spec does not have.
    pub fn bundle(&self, node: &str, keys: &NodeKeys) -> Option<Bundle> {
        let role = self.spec.node(node)?.role;
        let make = match role {
            Role::Control => roles::control,
            Role::Login => roles::login,
            Role::Compute => roles::compute,
        };
        let mut resources = common::keys(keys, self.secrets);
        resources.extend(make(self.spec, self.inventory, self.secrets, &self.slurm));
        let resources = settle(resources);
        Some(Bundle {
            format: kiln_wire::Version,
            cluster: self.spec.name.clone(),
            node: node.to_string(),
            role: role.as_str().to_string(),
            resources,
        })
    }

    pub fn slurm_conf(&self) -> &str {
        &self.slurm.text
    }
}

/// A file of the site's own takes the place of Kiln's: the later of two with one id counts, where the earlier stood.
fn settle(resources: Vec<Resource>) -> Vec<Resource> {
    let mut settled: Vec<Resource> = Vec::with_capacity(resources.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    for resource in resources {
        match places.entry(resource.id()) {
            Entry::Occupied(place) => settled[*place.get()] = resource,
            Entry::Vacant(place) => {
                place.insert(settled.len());
                settled.push(resource);
            }
        }
    }
    settled
}
