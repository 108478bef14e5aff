//! A fresh root in place: the boot volume is replaced. Id, address and volumes stay.

use serde_json::json;

use super::client::Call;
use super::create::{IDENTITY, SSH_KEYS};
use super::driver::{Driver, checked, missing};
use super::instances::REPLACES;
use super::region::Service::Core;
use super::wire::{State, WireInstance};
use crate::{Error, Instance, InstanceStatus, Rebuild, Result};

impl Driver {
    pub async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        let path = format!("/instances/{}", checked("instance", id)?);
        let mut there = self.own_instance(id).await?;
        let name = there.display_name.clone();
        if there.shape.starts_with("BM.") {
            return Err(Error::unsupported(format!(
                "{name} is a bare metal instance: Oracle cannot replace its root"
            ))
            .with_hint(
                "delete the instance; it comes back with the new image under the same name and address",
            ));
        }
        // Oracle takes no change of it, and would refuse the whole request.
        if there.metadata.get(SSH_KEYS).is_some_and(|key| *key != new.ssh_key) {
            return Err(Error::unsupported(format!(
                "{name} was launched with another SSH key, which Oracle cannot change in place"
            ))
            .with_hint("delete the instance; it comes back with the new key"));
        }
        // Oracle leaves one that is off, off.
        if there.lifecycle_state == State::Stopped {
            self.start(id).await?;
            there = self.own_instance(id).await?;
        }
        let old = self.boot_volume(&there).await?;
        let mut metadata = there.metadata.clone();
        metadata.insert(IDENTITY.into(), new.user_data.expose_secret().to_string());
        let mut tags = new.labels.clone();
        tags.insert(REPLACES.into(), old);
        let body = json!({
            "sourceDetails": {
                "sourceType": "image", "imageId": new.image, "isPreserveBootVolumeEnabled": false,
            },
            "metadata": metadata,
            "freeformTags": tags,
            "updateOperationConstraint": "ALLOW_DOWNTIME",
        });
        let call = Call::put(Core, &path, &body).once_only();
        // It may be busy with a reboot that is about to end.
        missing(self.while_busy(|| self.client.send(&call)).await, "instance", id)?;
        self.known.roots.lock().await.remove(id);
        let instance = self.instance(id).await?;
        // It may be over already, but the state must not be mistaken for the one before.
        let status = match instance.status {
            InstanceStatus::Active => InstanceStatus::Rebuilding,
            other => other,
        };
        Ok(Instance { status, ..instance })
    }

    async fn boot_volume(&self, instance: &WireInstance) -> Result<String> {
        let path = format!(
            "{}&availabilityDomain={}&instanceId={}",
            self.in_compartment("bootVolumeAttachments"),
            crate::remote::encode(&instance.availability_domain),
            crate::remote::encode(&instance.id)
        );
        let all: Vec<super::wire::WireAttachment> = self.client.list(Core, &path).await?;
        let own = all.into_iter().filter(super::wire::WireAttachment::holds).max_by_key(|a| a.time_created);
        own.and_then(|attachment| attachment.boot_volume_id)
            .ok_or_else(|| Error::conflict(format!("{} has no boot volume now", instance.display_name)))
    }
}
