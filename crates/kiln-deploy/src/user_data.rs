//! What an instance is told of its node at creation: who it is, its keys, where the share is. Secret, so it is never part of
//! a plan.

use kiln_wire::bundle::MountSource;
use kiln_wire::{Identity, SecretText, UserData, Version};

use crate::deployment::Deployment;
use crate::error::{Error, Result};

impl Deployment<'_> {
    pub(crate) fn user_data(&self, node: &str, share: Option<MountSource>) -> Result<SecretText> {
        let role = self.spec.node(node).ok_or_else(|| Error::UnknownNode(node.to_string()))?.role;
        let keys = self.keys()?.node(node)?;
        let identity = Identity {
            format: Version,
            cluster: self.spec.name.clone(),
            node: node.to_string(),
            role: role.as_str().to_string(),
            domain: self.spec.domain.clone(),
            build: false,
            seal_key: Some(keys.seal_key),
            sender_key: Some(keys.sender_key),
            ssh_host_key: Some(keys.ssh_host_key),
            share,
        };
        UserData { kiln: identity }.to_text(self.has_cloud_init()).map_err(|e| Error::NotReady(e.to_string()))
    }
}
