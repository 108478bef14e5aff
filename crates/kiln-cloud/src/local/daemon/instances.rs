//! Instances as the API sees them: accepting requests, showing records with their observed state.

use std::net::IpAddr;

use super::access::Caller;
use super::records::{InstanceRecord, Labelled as _, Phase, VolumeRecord};
use super::{Daemon, World};
use crate::local::{cgroup, flavor, names};
use crate::types::is_unused;
use crate::{Error, Instance, InstanceStatus, Labels, NewInstance, Rebuild, Result};
use kiln_wire::{Attachment, SecretText, labels};

/// The limit of `OpenStack`; far above what a bundle key and a node's name need.
const USER_DATA_MAX: usize = 64 << 10;

impl Daemon {
    pub fn show(&self, record: &InstanceRecord) -> Instance {
        let status = match &record.phase {
            Phase::Building => InstanceStatus::Building,
            Phase::Rebuilding => InstanceStatus::Rebuilding,
            Phase::Deleting => InstanceStatus::Deleting,
            Phase::Failed { reason } => InstanceStatus::Error { reason: reason.clone() },
            Phase::Ready if cgroup::populated(&self.instance_cgroup(&record.id)) => InstanceStatus::Active,
            Phase::Ready => InstanceStatus::Stopped,
        };
        Instance {
            id: record.id.clone(),
            name: record.name.clone(),
            status,
            image: Some(record.image.clone()),
            flavor: record.flavor.clone(),
            address: Some(IpAddr::V4(record.address)),
            public_address: None,
            labels: record.labels.clone(),
            volumes: record.volumes.iter().map(|a| a.volume.clone()).collect(),
            created: record.created,
            built: record.built,
        }
    }

    /// One page, in the order of ids: those after `marker`.
    pub fn instances(&self, caller: &Caller, cluster: &str, marker: &str, limit: usize) -> Vec<Instance> {
        let records: Vec<_> = self
            .world()
            .instances
            .iter()
            .filter(|i| i.cluster() == Some(cluster) && caller.may_see(*i) && i.id.as_str() > marker)
            .take(limit)
            .cloned()
            .collect();
        let is_shown = |record: &&InstanceRecord| self.fault(&format!("hide {}", record.name)).is_ok();
        records.iter().filter(is_shown).map(|record| self.show(record)).collect()
    }

    pub fn record(&self, caller: &Caller, id: &str) -> Result<InstanceRecord> {
        caller.check(self.world().instances.get(id)?).cloned()
    }

    /// Takes the request and the address; the building comes after.
    pub fn accept(&self, caller: &Caller, new: NewInstance) -> Result<InstanceRecord> {
        caller.check_labels(&new.labels)?;
        names::check_name(&new.name)?;
        flavor::check(&new.flavor)?;
        check_user_data(&new.user_data)?;
        check_ssh_key(&new.ssh_key)?;
        let mut world = self.world();
        if world.instances.iter().any(|i| i.name == new.name && i.cluster() == new.labels.cluster()) {
            return Err(Error::conflict(format!("there is an instance {} already", new.name)));
        }
        let layers = world.images.get(&new.image)?.layers.clone();
        let network = caller.check(world.networks.get(&new.network)?)?;
        let address = world.free_address(network, new.address)?;
        for id in &new.security_groups {
            caller.check(world.groups.get(id)?)?;
        }
        world.check_attachments(caller, &new.volumes)?;
        world.note_use(&new.volumes)?;
        let record = InstanceRecord {
            id: names::new_id(),
            name: new.name,
            image: new.image,
            flavor: new.flavor,
            network: new.network,
            address,
            security_groups: new.security_groups,
            user_data: new.user_data,
            ssh_key: new.ssh_key.trim().to_string(),
            labels: new.labels,
            volumes: new.volumes,
            created: jiff::Timestamp::now(),
            built: None,
            phase: Phase::Building,
            layers,
            upper: names::new_id(),
        };
        world.instances.put(record.clone())?;
        Ok(record)
    }

    /// Takes the request; from now on the instance is of the new image.
    pub fn accept_rebuild(&self, caller: &Caller, id: &str, new: Rebuild) -> Result<InstanceRecord> {
        caller.check_labels(&new.labels)?;
        check_ssh_key(&new.ssh_key)?;
        check_user_data(&new.user_data)?;
        let mut world = self.world();
        let mut record = caller.check(world.instances.get(id)?)?.clone();
        if record.phase == Phase::Deleting {
            return Err(Error::conflict(format!("instance {} is being deleted", record.name)));
        }
        record.layers.clone_from(&world.images.get(&new.image)?.layers);
        record.image = new.image;
        record.user_data = new.user_data;
        record.ssh_key = new.ssh_key.trim().to_string();
        record.labels = new.labels;
        record.upper = names::new_id();
        record.built = None;
        record.phase = Phase::Rebuilding;
        world.instances.put(record.clone())?;
        Ok(record)
    }

    pub fn set_labels(&self, caller: &Caller, id: &str, labels: Labels) -> Result<InstanceRecord> {
        caller.check_labels(&labels)?;
        let lock = self.instance_lock(id);
        let _only_one = super::lock(&lock);
        let record = {
            let mut world = self.world();
            let mut record = caller.check(world.instances.get(id)?)?.clone();
            record.labels = labels;
            world.instances.put(record.clone())?;
            record
        };
        self.write_config_drive(&record)?;
        Ok(record)
    }

    pub fn console(&self, caller: &Caller, id: &str, lines: usize) -> Result<String> {
        self.record(caller, id)?;
        let text = std::fs::read(self.instance_dir(id).join("console.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        Ok(all[all.len().saturating_sub(lines)..].join("\n"))
    }
}

impl World {
    fn check_attachments(&self, caller: &Caller, attachments: &[Attachment]) -> Result<()> {
        for attachment in attachments {
            let volume = self.volumes.get(&attachment.volume)?;
            // A volume of no cluster is for all, but a cluster's token cannot pick one that root never gave it.
            if !(caller.may_see(volume) || self.shared_with(caller, volume)) {
                caller.check(volume)?;
            }
        }
        Ok(())
    }

    /// From now on these volumes may hold data.
    fn note_use(&mut self, attachments: &[Attachment]) -> Result<()> {
        for attachment in attachments {
            let volume = self.volumes.get(&attachment.volume)?;
            if is_unused(&volume.labels) {
                let mut volume = volume.clone();
                volume.labels.insert(labels::USED.into(), labels::USED_YES.into());
                self.volumes.put(volume)?;
            }
        }
        Ok(())
    }

    fn shared_with(&self, caller: &Caller, volume: &VolumeRecord) -> bool {
        volume.cluster().is_none()
            && self
                .instances
                .iter()
                .any(|i| caller.may_see(i) && i.volumes.iter().any(|a| a.volume == volume.id))
    }
}

fn check_user_data(user_data: &SecretText) -> Result<()> {
    if user_data.expose_secret().len() > USER_DATA_MAX {
        return Err(Error::refused(format!("user data is longer than {USER_DATA_MAX} bytes")));
    }
    Ok(())
}

fn check_ssh_key(key: &str) -> Result<()> {
    if key.trim().lines().count() > 1 {
        return Err(Error::refused("an SSH key is one line"));
    }
    Ok(())
}
