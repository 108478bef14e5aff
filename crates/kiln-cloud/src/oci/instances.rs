//! Instances that are there: one listing for all, with what Oracle keeps apart from them: addresses, boot volumes, volumes.
//! How they come is in `create.rs`, how they change in `rebuild.rs` and `power.rs`, how they go in `delete.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::driver::{Addresses, Driver, PACE, PAGE, Root, checked, cluster_of, missing, not_ours};
use super::fault::of_work;
use super::region::Service::Core;
use super::shapes::flavor_of;
use super::wire::{State, WireAttachment, WireInstance, WirePrivateIp, WireVnic};
use super::work::Progress;
use crate::remote::encode;
use crate::{Class, Error, Instance, InstanceStatus, Labels, Result};
use kiln_wire::labels;

/// On an instance that was rebuilt: the boot volume that went. While the instance still has it, it is being rebuilt: Oracle
/// has no state for that.
pub(super) const REPLACES: &str = "kiln_replaces";

/// For an instance to have an address.
const ADDRESS_LIMIT: Duration = Duration::from_secs(120);

impl Driver {
    /// In the order of their creation.
    pub async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        let mut all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
        all.retain(|i| cluster_of(&i.freeform_tags) == Some(cluster));
        let mut instances = self.complete(all).await?;
        instances.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(instances)
    }

    /// Images of all instances of the compartment, whoever made them.
    pub async fn used_images(&self) -> Result<BTreeSet<String>> {
        let all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
        let there = all.iter().filter(|i| i.lifecycle_state != State::Terminated);
        Ok(there.filter_map(WireInstance::image).collect())
    }

    /// One that is gone stays in listings for hours.
    pub async fn instance(&self, id: &str) -> Result<Instance> {
        let wire = self.wire_instance(id).await?;
        let gone = || Error::not_found("instance", id.to_string());
        self.complete(vec![wire]).await?.pop().ok_or_else(gone)
    }

    pub(super) async fn wire_instance(&self, id: &str) -> Result<WireInstance> {
        let path = format!("/instances/{}", checked("instance", id)?);
        missing(self.client.get(Core, &path).await, "instance", id)
    }

    /// One that carries Kiln's label: no other is ever touched.
    pub(super) async fn own_instance(&self, id: &str) -> Result<WireInstance> {
        let instance = self.wire_instance(id).await?;
        match instance.lifecycle_state {
            State::Terminated => Err(Error::not_found("instance", id.to_string())),
            _ if cluster_of(&instance.freeform_tags).is_none() => {
                Err(not_ours("instance", &format!("{} ({id})", instance.display_name)))
            }
            _ => Ok(instance),
        }
    }

    async fn complete(&self, all: Vec<WireInstance>) -> Result<Vec<Instance>> {
        let launched = self.known.launched.lock().await.clone();
        // A launch that failed leaves nothing but this, and its work request.
        let failed = |i: &WireInstance| launched.contains_key(&i.id);
        let all: Vec<WireInstance> =
            all.into_iter().filter(|i| i.lifecycle_state != State::Terminated || failed(i)).collect();
        let alive: Vec<&WireInstance> =
            all.iter().filter(|i| i.lifecycle_state != State::Terminated).collect();
        let addresses = self.addresses(&alive).await?;
        let roots = self.roots(&alive).await?;
        let volumes = self.attached_volumes(&alive).await?;
        let mut instances = Vec::with_capacity(all.len());
        for wire in all {
            let status = self.status(&wire, roots.get(&wire.id), &launched).await?;
            let own = addresses.get(&wire.id);
            let mut labels = wire.freeform_tags.clone();
            labels.remove(REPLACES);
            instances.push(Instance {
                status,
                image: wire.image(),
                flavor: flavor_of(&wire.shape, wire.shape_config),
                address: own.map(|own| own.private),
                public_address: own.and_then(|own| own.public),
                labels,
                volumes: volumes.get(&wire.id).cloned().unwrap_or_default(),
                created: wire.time_created,
                built: roots.get(&wire.id).map(|root| root.since),
                name: wire.display_name,
                id: wire.id,
            });
        }
        Ok(instances)
    }

    async fn status(
        &self,
        wire: &WireInstance,
        root: Option<&Root>,
        launched: &BTreeMap<String, Option<String>>,
    ) -> Result<InstanceStatus> {
        use InstanceStatus::{Active, Building, Deleting, Held, Rebuilding, Stopped};

        let replaced = wire.freeform_tags.get(REPLACES);
        let has_old_root = replaced.is_some_and(|old| root.is_none_or(|root| root.volume == *old));
        Ok(match wire.lifecycle_state {
            State::Terminated => {
                let request = launched.get(&wire.id).cloned().flatten();
                let error = self.failure_of(wire, request.as_deref()).await?;
                InstanceStatus::Error { reason: error.to_string() }
            }
            State::Terminating => Deleting,
            State::Moving => Held { how: "moving".into() },
            State::Unknown => Held { how: "in a state that Kiln does not know".into() },
            State::Running | State::Stopped if has_old_root => match self.rebuild_of(&wire.id).await? {
                Progress::Failed(reason) => InstanceStatus::Error { reason },
                Progress::UnderWay | Progress::Over => Rebuilding,
            },
            State::Running => Active,
            State::Stopping | State::Starting if has_old_root => Rebuilding,
            State::Provisioning | State::Starting | State::CreatingImage => Building,
            // With a new root, but not on again yet.
            State::Stopping | State::Stopped if replaced.is_some() => {
                match self.rebuild_of(&wire.id).await? {
                    Progress::UnderWay => Rebuilding,
                    Progress::Failed(_) => Stopped,
                    // The listing may be older than the answer about the work.
                    Progress::Over => match self.wire_instance(&wire.id).await?.lifecycle_state {
                        State::Stopping | State::Stopped => Stopped,
                        _ => Rebuilding,
                    },
                }
            }
            State::Stopping | State::Stopped => Stopped,
        })
    }

    /// Two listings tell the addresses of all; only of those that are reached from outside each one is asked for.
    async fn addresses(&self, all: &[&WireInstance]) -> Result<BTreeMap<String, Addresses>> {
        let mut known = self.known.addresses.lock().await;
        known.retain(|id, _| all.len() == 1 || all.iter().any(|i| i.id == *id));
        let unknown: BTreeSet<&str> =
            all.iter().map(|i| i.id.as_str()).filter(|id| !known.contains_key(*id)).collect();
        for (attachment, private) in self.attached_addresses(&unknown).await? {
            let Some(vnic) = &attachment.vnic_id else { continue };
            let instance = all.iter().find(|i| i.id == attachment.instance_id);
            let mut public = None;
            if instance.is_some_and(|i| is_outside(&i.freeform_tags)) {
                match self.open_way(vnic, attachment.subnet_id.as_deref()).await? {
                    Some(found) => public = found.public_ip,
                    // Not yet: asked again next time.
                    None => continue,
                }
            }
            known.insert(attachment.instance_id, Addresses { private, public });
        }
        Ok(known.clone())
    }

    /// Of these instances, as far as they have one already.
    async fn attached_addresses(&self, instances: &BTreeSet<&str>) -> Result<Vec<(WireAttachment, IpAddr)>> {
        let mut path = self.in_compartment("vnicAttachments");
        match (instances.len(), instances.first()) {
            (0, _) => return Ok(Vec::new()),
            (1, Some(one)) => path = format!("{path}&instanceId={}", encode(one)),
            _ => {}
        }
        let mut attachments: Vec<WireAttachment> = self.client.list(Core, &path).await?;
        attachments.retain(|a| instances.contains(a.instance_id.as_str()) && a.holds());
        let subnets: BTreeSet<&str> = attachments.iter().filter_map(|a| a.subnet_id.as_deref()).collect();
        let mut by_vnic: BTreeMap<String, IpAddr> = BTreeMap::new();
        for subnet in subnets {
            for ip in self.private_ips(subnet).await? {
                by_vnic.extend(ip.vnic_id.zip(ip.ip_address));
            }
        }
        let address = |a: &WireAttachment| by_vnic.get(a.vnic_id.as_ref()?).copied();
        Ok(attachments.into_iter().filter_map(|a| address(&a).map(|address| (a, address))).collect())
    }

    /// Oracle gives an instance its address a while after it has accepted the launch; others are made with the address of
    /// the control node in them. A launch that fails in the meantime becomes an error, and is among those that are returned,
    /// by their places.
    pub(super) async fn await_addresses(&self, made: &mut [Result<Instance>]) -> Result<Vec<usize>> {
        let deadline = tokio::time::Instant::now() + ADDRESS_LIMIT;
        let mut pace = PACE;
        let mut failed = Vec::new();
        loop {
            let mut waiting: Vec<&mut Instance> =
                made.iter_mut().flatten().filter(|instance| instance.address.is_none()).collect();
            let ids: BTreeSet<String> = waiting.iter().map(|instance| instance.id.clone()).collect();
            let found = self.attached_addresses(&ids.iter().map(String::as_str).collect()).await?;
            for instance in &mut waiting {
                let own = found.iter().find(|(attachment, _)| attachment.instance_id == instance.id);
                instance.address = own.map(|(_, address)| *address);
            }
            if waiting.iter().all(|i| i.address.is_some()) || tokio::time::Instant::now() >= deadline {
                return Ok(failed);
            }
            let all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
            let mut is_waiting = false;
            for (place, one) in made.iter_mut().enumerate() {
                let Ok(instance) = one else { continue };
                let wire = all.iter().find(|wire| wire.id == instance.id);
                match wire.filter(|wire| wire.lifecycle_state == State::Terminated) {
                    Some(wire) if instance.address.is_none() => {
                        *one = Err(self.launch_failure(wire).await?);
                        failed.push(place);
                    }
                    _ => is_waiting |= instance.address.is_none(),
                }
            }
            if !is_waiting {
                return Ok(failed);
            }
            pace.step().await;
        }
    }

    /// Of one that is listed as terminated, and that nobody needs to hear of again.
    async fn launch_failure(&self, wire: &WireInstance) -> Result<Error> {
        let request = self.known.launched.lock().await.remove(&wire.id).flatten();
        let error = self.failure_of(wire, request.as_deref()).await?;
        Ok(if error.class == Class::NoRoom { error } else { error.about(&wire.display_name) })
    }

    /// Why a launch failed. Where there was no room, that is noted, so that the next one goes elsewhere.
    async fn failure_of(&self, wire: &WireInstance, request: Option<&str>) -> Result<Error> {
        let reason = self.why_failed(&wire.id, request).await?;
        let error = of_work(reason.unwrap_or("the launch failed".into()));
        if error.class == Class::NoRoom {
            self.note_full(&wire.availability_domain, &wire.shape).await;
        }
        Ok(error)
    }

    pub(super) async fn private_ips(&self, subnet: &str) -> Result<Vec<WirePrivateIp>> {
        let path = format!("/privateIps?subnetId={}&limit={PAGE}", encode(subnet));
        self.client.list(Core, &path).await
    }

    pub(super) async fn vnic(&self, id: &str) -> Result<WireVnic> {
        let path = format!("/vnics/{}", checked("VNIC", id)?);
        missing(self.client.get(Core, &path).await, "VNIC", id)
    }

    /// Boot volumes, and since when: only of those that may have got another one since they were last asked for.
    async fn roots(&self, all: &[&WireInstance]) -> Result<BTreeMap<String, Root>> {
        let mut known = self.known.roots.lock().await;
        known.retain(|id, _| all.len() == 1 || all.iter().any(|i| i.id == *id));
        let is_settled = |i: &WireInstance| {
            let root = known.get(&i.id);
            let old = i.freeform_tags.get(REPLACES);
            i.lifecycle_state == State::Running
                && root.is_some_and(|root| old.is_none_or(|old| *old != root.volume))
        };
        let open: Vec<&&WireInstance> = all.iter().filter(|i| !is_settled(i)).collect();
        let domains: BTreeSet<&str> = open.iter().map(|i| i.availability_domain.as_str()).collect();
        let ids: BTreeSet<String> = open.iter().map(|i| i.id.clone()).collect();
        for domain in domains {
            let mut path = self.in_compartment("bootVolumeAttachments");
            path = format!("{path}&availabilityDomain={}", encode(domain));
            if let (1, Some(one)) = (ids.len(), ids.first()) {
                path = format!("{path}&instanceId={}", encode(one));
            }
            let attachments: Vec<WireAttachment> = self.client.list(Core, &path).await?;
            for id in
                ids.iter().filter(|id| open.iter().any(|i| i.id == **id && i.availability_domain == domain))
            {
                let own = attachments.iter().filter(|a| a.instance_id == *id && a.holds());
                let newest = own.max_by_key(|a| a.time_created);
                match newest.and_then(|a| Some((a.boot_volume_id.clone()?, a.time_created))) {
                    Some((volume, since)) => _ = known.insert(id.clone(), Root { volume, since }),
                    None => _ = known.remove(id),
                }
            }
        }
        Ok(known.clone())
    }

    async fn attached_volumes(&self, all: &[&WireInstance]) -> Result<BTreeMap<String, Vec<String>>> {
        let mut volumes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if all.is_empty() {
            return Ok(volumes);
        }
        let mut path = self.in_compartment("volumeAttachments");
        if let [one] = all {
            path = format!("{path}&instanceId={}", encode(&one.id));
        }
        let attachments: Vec<WireAttachment> = self.client.list(Core, &path).await?;
        for attachment in attachments.into_iter().filter(WireAttachment::holds) {
            volumes.entry(attachment.instance_id).or_default().extend(attachment.volume_id);
        }
        Ok(volumes)
    }

    pub async fn add_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        let path = format!("/instances/{}", checked("instance", id)?);
        self.merge_tags(Core, "instance", &path, &labels).await?;
        self.instance(id).await
    }

    pub async fn set_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        let there = self.own_instance(id).await?;
        let mut tags = labels;
        tags.extend(there.freeform_tags.get_key_value(REPLACES).map(|(k, v)| (k.clone(), v.clone())));
        let body = serde_json::json!({ "freeformTags": tags });
        let path = format!("/instances/{id}");
        self.client.send(&super::client::Call::put(Core, path, &body).once_only()).await?;
        self.instance(id).await
    }
}

/// Whether it is reached from outside its network.
fn is_outside(labels: &Labels) -> bool {
    labels.get(labels::ROLE).is_some_and(|role| role == "login" || role == labels::BUILD_ROLE)
}
