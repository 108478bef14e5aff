//! New instances. Each intended launch has one random name, from which the tokens come that its attempts carry, so that an
//! answer that got lost makes no twin. Whoever keeps the name can ask again after a restart.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::client::{Call, retry_token};
use super::driver::{Driver, cluster_of};
use super::fault::is_spent;
use super::region::Service::Core;
use super::wire::{State, WireInstance};
use crate::remote::bounded;
use crate::retry::{Policy, retry};
use crate::{Class, Error, Instance, InstanceStatus, NewInstance, Result};

/// The metadata key of Kiln's own. `user_data` cannot change after a launch, and a rebuild brings a new identity.
pub(super) const IDENTITY: &str = "kiln";
pub(super) const SSH_KEYS: &str = "ssh_authorized_keys";
/// How many launches of one name can have been ended by somebody else, each of which has spent a token.
const TURNS: usize = 5;

/// One that is meant, with how far it has got.
struct Launch {
    new: NewInstance,
    name: String,
    /// Domains that have not been tried yet, the next one last. `None`: nobody has looked yet.
    left: Option<Vec<String>>,
}

impl Launch {
    fn new(new: NewInstance) -> Launch {
        let name = new.request.clone().unwrap_or_else(retry_token);
        Launch { new, name, left: None }
    }

    fn has_more(&self) -> bool {
        self.left.as_ref().is_some_and(|left| !left.is_empty())
    }

    /// The same in every process. A token stands for one body, so another domain has another one.
    fn token(&self, domain: &str, turn: usize) -> String {
        let digest = hex::encode(Sha256::digest(format!("{} {domain} {turn}", self.name)));
        format!("kiln-{}", &digest[..32])
    }
}

impl Driver {
    pub async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        let taken = match self.taken_names(&new).await {
            Ok(taken) => taken,
            Err(error) => return new.iter().map(|_| Err(error.clone())).collect(),
        };
        let taken = &taken;
        let mut launches: Vec<Launch> = new.into_iter().map(Launch::new).collect();
        let mut made = bounded(launches.iter_mut().collect(), |launch: &mut Launch| async move {
            let name = &launch.new.name;
            if taken.contains(name) {
                return Err(Error::conflict(format!("the cluster has an instance {name} already")));
            }
            self.create_one(launch).await
        })
        .await;
        loop {
            // They are made all the same; whoever lists them later sees the addresses.
            let failed = self.await_addresses(&mut made).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "new instances have no address yet");
                Vec::new()
            });
            let mut is_again = false;
            for index in failed {
                let is_full = matches!(&made[index], Err(error) if error.class == Class::NoRoom);
                if is_full && launches[index].has_more() {
                    made[index] = self.create_one(&mut launches[index]).await;
                    is_again |= made[index].is_ok();
                }
            }
            if !is_again {
                break;
            }
        }
        self.explain(&mut made, &launches).await;
        made
    }

    /// What Oracle says of its room, beside what it refused for the lack of it.
    async fn explain(&self, made: &mut [Result<Instance>], launches: &[Launch]) {
        for (one, launch) in made.iter_mut().zip(launches) {
            if let Err(error) = one {
                *error = self.with_report(error.clone(), &launch.new.flavor).await;
            }
        }
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

    /// Tries the domains that are left, until one has room.
    async fn create_one(&self, launch: &mut Launch) -> Result<Instance> {
        let new = &launch.new;
        let mut left = if let Some(left) = launch.left.take() {
            left
        } else {
            for attachment in &new.volumes {
                self.note_use(&attachment.volume).await?;
            }
            self.domains_for(new).await?.into_iter().rev().collect()
        };
        let mut outcome = Err(Error::no_room("no availability domain is left"));
        while let Some(domain) = left.pop() {
            outcome = self.launch(launch, &domain).await;
            match &outcome {
                Err(error) if error.class == Class::NoRoom => {
                    let (shape, _) = self.shape(&new.flavor).await?;
                    tracing::info!(instance = new.name, domain, shape, %error, "no room");
                    self.note_full(&domain, &shape).await;
                    self.most_room_last(&mut left, &new.flavor).await;
                }
                _ => break,
            }
        }
        let new = &launch.new;
        let made = match outcome {
            Ok(made) => Ok(instance(made, new)),
            Err(error) if [Class::Refused, Class::NoRights].contains(&error.class) => {
                Err(error.about(&new.name))
            }
            Err(error) => Err(error),
        };
        launch.left = Some(left);
        made
    }

    async fn launch(&self, launch: &Launch, domain: &str) -> Result<WireInstance> {
        let body = &self.launch_body(&launch.new, domain).await?;
        for turn in 0..TURNS {
            let token = &launch.token(domain, turn);
            let answer = retry(&Policy::REMOTE, |attempt| async move {
                let call = Call::post(Core, "/instances", body).with_token(token);
                match self.client.send_once(&call).await {
                    Ok(answer) => {
                        let made: WireInstance = answer.read("a launch")?;
                        self.known.launched.lock().await.insert(made.id.clone(), answer.work_request);
                        Ok(Some(made))
                    }
                    Err(error) if is_spent(&error) => self.instance_of_name(&launch.new).await,
                    // What an earlier attempt made is in the way.
                    Err(error) if error.is_conflict() && attempt > 0 => {
                        self.instance_of_name(&launch.new).await?.ok_or(error).map(Some)
                    }
                    Err(error) => Err(error),
                }
            });
            if let Some(made) = answer.await? {
                return Ok(made);
            }
            // What this token has made is gone again, or was to be something else: this one is another instance.
        }
        Err(Error::conflict(format!("{}: the cloud takes it for a launch that is over", launch.new.name)))
    }

    async fn instance_of_name(&self, new: &NewInstance) -> Result<Option<WireInstance>> {
        let all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
        Ok(all.into_iter().find(|i| {
            i.display_name == new.name
                && cluster_of(&i.freeform_tags) == cluster_of(&new.labels)
                && ![State::Terminating, State::Terminated].contains(&i.lifecycle_state)
        }))
    }

    async fn launch_body(&self, new: &NewInstance, domain: &str) -> Result<Value> {
        let (shape, size) = self.shape(&new.flavor).await?;
        let compute_cluster = self.compute_cluster_for(new, domain).await?;
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
            "availabilityDomain": domain,
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
        if let Some(id) = compute_cluster {
            body["computeClusterId"] = json!(id);
        }
        if let Some(tag) = self.control_tag(&new.labels).await {
            body["definedTags"] = tag;
        }
        if !new.volumes.is_empty() {
            let attachment = |v: &kiln_wire::Attachment| json!({ "type": "paravirtualized", "volumeId": v.volume, "isReadOnly": v.read_only });
            body["launchVolumeAttachments"] = new.volumes.iter().map(attachment).collect();
        }
        Ok(body)
    }
}

fn instance(made: WireInstance, new: &NewInstance) -> Instance {
    Instance {
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
    }
}
