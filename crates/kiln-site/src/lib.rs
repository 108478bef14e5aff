//! The pure function that makes all configuration: spec, inventory and secrets in, one bundle per node out.
//! The same bundle is pushed when the cluster is configured and pulled when a node boots. No I/O happens here.

mod accounting;
pub mod bundle;
mod common;
pub mod identity;
mod inputs;
mod make;
mod roles;
mod slurm_conf;

use kiln_spec::{Role, Spec};

pub use bundle::Bundle;
pub use identity::{Identity, UserData};
pub use inputs::{Inventory, NodeFacts, NodeKeys, Secrets};
pub use roles::{SHARE, volume_name};
use slurm_conf::SlurmConf;

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
        Some(Bundle {
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
