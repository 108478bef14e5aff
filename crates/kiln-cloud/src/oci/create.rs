//! New instances. Each intended launch has one random token, which all its attempts carry, so that an answer that got lost
//! makes no twin.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::{Call, retry_token};
use super::driver::{Driver, bounded, cluster_of};
use super::region::Service::Core;
use super::wire::{State, WireInstance};
use crate::retry::{Policy, retry};
use crate::{Class, Error, Instance, InstanceStatus, NewInstance, Result};

/// The metadata key of Kiln's own. `user_data` cannot change after a launch, and a rebuild brings a new identity.
pub(super) const IDENTITY: &str = "kiln";
pub(super) const SSH_KEYS: &str = "ssh_authorized_keys";

impl Driver {
    pub async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        let taken = match self.taken_names(&new).await {
            Ok(taken) => taken,
            Err(error) => return new.iter().map(|_| Err(error.clone())).collect(),
        };
        let taken = &taken;
        let mut made = bounded(new, |new| async move {
            if taken.contains(&new.name) {
                return Err(Error::conflict(format!("the cluster has an instance {} already", new.name)));
            }
            self.create_one(&new).await
        })
        .await;
        // They are made all the same; whoever lists them later sees the addresses.
        if let Err(error) = self.await_addresses(&mut made).await {
            tracing::warn!(%error, "new instances have no address yet");
        }
        made
    }

    /// Names mean nothing to Oracle; any number of instances can have the same.
    async fn taken_names(&self, new: &[NewInstance]) -> Result<BTreeSet<String>> {
        let all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
        let there = all.into_iter().filter(|i| i.lifecycle_state != State::Terminated);
        let own = |i: &WireInstance| {
            let mut same = new.iter().filter(|n| n.name == i.display_name);
            same.any(|n| cluster_of(&n.labels) == cluster_of(&i.freeform_tags))
        };
        Ok(there.filter(own).map(|i| i.display_name).collect())
    }

    async fn create_one(&self, new: &NewInstance) -> Result<Instance> {
        let body = self.launch_body(new).await?;
        for attachment in &new.volumes {
            self.note_use(&attachment.volume).await?;
        }
        let (body, token) = (&body, &retry_token());
        let answer = retry(&Policy::REMOTE, |attempt| async move {
            let call = Call::post(Core, "/instances", body).with_token(token);
            match self.client.send_once(&call).await {
                Ok(answer) => {
                    let made: WireInstance = answer.read("a launch")?;
                    self.known.launched.lock().await.insert(made.id.clone(), answer.work_request);
                    Ok(made)
                }
                // What an earlier attempt made is gone again, or the token was taken otherwise.
                Err(error) if error.is_conflict() && attempt > 0 => {
                    self.instance_of_name(new).await?.ok_or(error)
                }
                Err(error) => Err(error),
            }
        });
        let made = match answer.await {
            Ok(made) => made,
            Err(error) if [Class::Refused, Class::NoRights].contains(&error.class) => {
                return Err(error.about(&new.name));
            }
            Err(error) => return Err(error),
        };
        Ok(Instance {
            id: made.id,
            name: new.name.clone(),
            status: InstanceStatus::Building,
            image: Some(new.image.clone()),
            flavor: new.flavor.clone(),
            address: new.address,
            public_address: None,
            labels: new.labels.clone(),
            volumes: new.volumes.iter().map(|v| v.volume.clone()).collect(),
            created: Timestamp::now(),
            built: None,
        })
    }

    async fn instance_of_name(&self, new: &NewInstance) -> Result<Option<WireInstance>> {
        let all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
        Ok(all.into_iter().find(|i| {
            i.display_name == new.name
                && cluster_of(&i.freeform_tags) == cluster_of(&new.labels)
                && ![State::Terminating, State::Terminated].contains(&i.lifecycle_state)
        }))
    }

    async fn launch_body(&self, new: &NewInstance) -> Result<Value> {
        let (shape, size) = self.shape(&new.flavor).await?;
        let mut vnic = json!({
            "subnetId": self.subnet_of(&new.network).await?,
            "assignPublicIp": new.public,
            "nsgIds": new.security_groups,
        });
        if let Some(address) = new.address {
            vnic["privateIp"] = json!(address);
        }
        let mut source = json!({ "sourceType": "image", "imageId": new.image });
        if let Some(size) = new.disk_gib {
            // Oracle makes none smaller.
            source["bootVolumeSizeInGBs"] = json!(size.max(50));
        }
        let mut body = json!({
            "availabilityDomain": self.domain(new.zone.as_deref()).await?,
            "compartmentId": self.settings.compartment,
            "displayName": new.name,
            "shape": shape,
            "sourceDetails": source,
            "createVnicDetails": vnic,
            "metadata": { SSH_KEYS: new.ssh_key, IDENTITY: new.user_data.expose_secret() },
            "freeformTags": new.labels,
            // The first version of the metadata service answers to whoever asks.
            "instanceOptions": { "areLegacyImdsEndpointsDisabled": true },
        });
        if let Some(size) = size {
            body["shapeConfig"] = size;
        }
        if !new.volumes.is_empty() {
            let attachment = |v: &kiln_wire::Attachment| json!({ "type": "paravirtualized", "volumeId": v.volume, "isReadOnly": v.read_only });
            body["launchVolumeAttachments"] = new.volumes.iter().map(attachment).collect();
        }
        Ok(body)
    }
}
