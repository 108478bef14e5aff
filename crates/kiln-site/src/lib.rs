//! The pure function that makes all configuration: spec, inventory and secrets in, one bundle per node out.
//! The same bundle is pushed when the cluster is configured and pulled when a node boots. No I/O happens here.

mod inputs;
mod secret;
mod service_users;
pub mod services;
mod slurm_conf;
pub mod software;
mod volumes;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kiln_distro::Family;
use kiln_spec::Spec;

pub use inputs::{Exports, Given, Inventory, NodeFacts, NodeKeys, Secrets};
use kiln_wire::{Bundle, Resource};
pub use secret::{Form, Secret};
pub use service_users::ServiceUser;
use services::Context;
pub use services::settings::proxy;
use slurm_conf::SlurmConf;
pub use slurm_conf::gres::has_gpu_driver;
pub use slurm_conf::{SLURMCTLD_PORT, gpus_of_gres, longest_resume_timeout, resume_timeout};
pub use volumes::{Purpose, on_file_storage, volume_name};

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
        let found = self.spec.node(node)?;
        let role = found.role;
        let context = Context {
            spec: self.spec,
            inventory: self.inventory,
            secrets: self.secrets,
            slurm: &self.slurm,
            node,
            keys,
            role,
            family: Family::of_image(self.spec, found.image),
        };
        let parts = services::of(role).iter().flat_map(|service| service.bundle_part(&context));
        let resources = settle(parts);
        Some(Bundle {
            kiln: None,
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

/// A file of the site's own takes the place of Kiln's: the later of two with one id counts, where the earlier stood. Unit files
/// come first: systemd reads all of them again before the next service after a change, which takes seconds on a slow machine.
fn settle(resources: impl Iterator<Item = Resource>) -> Vec<Resource> {
    let mut settled: Vec<Resource> = Vec::new();
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
    settled.sort_by_key(|resource| !resource.is_unit_file());
    settled
}
