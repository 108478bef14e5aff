//! The fake cloud as the code under test sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Memory;
use super::world::World;
use crate::retry::{Policy, retry};
use crate::{
    Error, Flavor, Image, Instance, InstanceStatus, Kind, Labels, Network, NewImage, NewInstance, NewNetwork,
    NewSecurityGroup, NewVolume, Rebuild, Result, SecurityGroup, Volume, VolumeStatus,
};
use kiln_wire::labels;

/// Between two looks at what keeps a call waiting.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, Clone)]
pub struct Driver(Memory);

/// Which of the process's fake clouds it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    pub(super) name: String,
}

impl Driver {
    pub(super) fn new(memory: Memory) -> Driver {
        Driver(memory)
    }

    /// Notes the call, waits if it is held, and fails if it is to fail.
    async fn begin(&self, call: &str, about: &str) -> Result<()> {
        let whole = format!("{call} {about}").trim_end().to_string();
        self.0.world().calls.push(whole.clone());
        let held = |world: &World| world.held.contains(call) || world.held.contains(&whole);
        while held(&self.0.world()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.0.world().fault(call)
    }

    /// As [`Driver::begin`], with the patience that the other drivers have.
    async fn begin_patiently(&self, call: &str, about: &str) -> Result<()> {
        retry(&Policy::LOCAL, |_| self.begin(call, about)).await
    }

    fn with_status(&self, id: &str, status: InstanceStatus) -> Result<Instance> {
        let mut world = self.0.world();
        world.change(id, |instance| instance.status = status);
        world.get(id)
    }
}

fn of<'l>(labels: &'l Labels, cluster: &str) -> Option<&'l String> {
    labels.get(labels::CLUSTER).filter(|own| *own == cluster)
}

impl crate::driver::Driver for Driver {
    type Access = Access;

    const POLL: Duration = Duration::from_millis(20);

    fn at(access: &Access) -> Result<Driver> {
        let found = Memory::named(&access.name).map(Driver);
        found.ok_or_else(|| Error::unsupported(format!("there is no cloud {} in memory", access.name)))
    }

    async fn access(&self, _cluster: &str, _token: &str, _networks: &[Network]) -> Result<Access> {
        Ok(Access { name: self.0.name.clone() })
    }

    async fn grant(&self, cluster: &str, token: &str) -> Result<()> {
        self.0.world().grants.insert(cluster.to_string(), token.to_string());
        Ok(())
    }

    async fn revoke(&self, cluster: &str) -> Result<()> {
        self.0.world().grants.remove(cluster);
        Ok(())
    }

    async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        let mut world = self.0.world();
        world.listings += 1;
        world.fault("list")?;
        Ok(world.list().into_iter().filter(|i| of(&i.labels, cluster).is_some()).collect())
    }

    async fn instance(&self, id: &str) -> Result<Instance> {
        let mut world = self.0.world();
        world.fault("show")?;
        world.get(id)
    }

    async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        self.0.world().launches.extend(new.iter().filter_map(|new| new.request.clone()));
        match self.begin("create", &new.len().to_string()).await {
            Ok(()) => {
                let mut world = self.0.world();
                new.into_iter().map(|new| world.create(new)).collect()
            }
            Err(error) => new.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        self.begin_patiently("rebuild", &format!("{id} {}", new.image)).await?;
        self.0.world().rebuild(id, new)
    }

    async fn reboot(&self, id: &str, _hard: bool) -> Result<Instance> {
        self.begin_patiently("reboot", id).await?;
        self.0.world().get(id)
    }

    async fn stop(&self, id: &str, _hard: bool) -> Result<Instance> {
        self.begin("stop", id).await?;
        self.with_status(id, InstanceStatus::Stopped)
    }

    async fn start(&self, id: &str) -> Result<Instance> {
        self.begin_patiently("start", id).await?;
        self.with_status(id, InstanceStatus::Active)
    }

    async fn delete(&self, id: &str) -> Result<()> {
        self.begin_patiently("delete", id).await?;
        self.0.world().remove(id);
        Ok(())
    }

    async fn delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>> {
        let mut results = Vec::with_capacity(ids.len());
        for id in ids {
            let result = self.delete(id).await;
            if result.is_ok() {
                gone(id);
            }
            results.push(result);
        }
        results
    }

    async fn label(&self, kind: Kind, id: &str, labels: Labels) -> Result<()> {
        let mut world = self.0.world();
        let found = match kind {
            Kind::Instance => {
                world.change(id, |instance| instance.labels.extend(labels));
                return world.get(id).map(drop);
            }
            Kind::Volume => world.volumes.iter_mut().find(|v| v.id == id).map(|v| &mut v.labels),
            Kind::Network => world.networks.iter_mut().find(|n| n.id == id).map(|n| &mut n.labels),
            Kind::SecurityGroup => world.groups.iter_mut().find(|g| g.id == id).map(|g| &mut g.labels),
            Kind::Image => world.images.iter_mut().find(|i| i.id == id).map(|i| &mut i.properties),
        };
        found.ok_or_else(|| Error::not_found(kind.word(), id))?.extend(labels);
        Ok(())
    }

    async fn set_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        let mut world = self.0.world();
        world.change(id, |instance| instance.labels = labels);
        world.get(id)
    }

    async fn console_log(&self, id: &str, _lines: usize) -> Result<String> {
        self.0.world().get(id).map(|_| String::new())
    }

    async fn images(&self) -> Result<Vec<Image>> {
        Ok(self.0.world().images.clone())
    }

    async fn used_images(&self) -> Result<BTreeSet<String>> {
        Ok(self.0.world().list().into_iter().filter_map(|instance| instance.image).collect())
    }

    async fn image(&self, id: &str) -> Result<Image> {
        let found = self.0.world().images.iter().find(|image| image.id == id).cloned();
        found.ok_or_else(|| Error::not_found("image", id))
    }

    async fn find_image(&self, name: &str) -> Result<Image> {
        let world = self.0.world();
        let found = world.images.iter().rev().find(|image| image.name == name || image.id == name);
        found.cloned().ok_or_else(|| Error::not_found("image", name))
    }

    async fn create_image(&self, instance: &str, new: NewImage, copied: &(dyn Fn() + Sync)) -> Result<Image> {
        copied();
        let mut world = self.0.world();
        if world.get(instance)?.status != InstanceStatus::Stopped {
            return Err(Error::conflict(format!("instance {instance} is not stopped")));
        }
        let image = Image {
            id: format!("image-{}", world.number()),
            name: new.name,
            labels: new.labels,
            properties: new.properties,
            size_bytes: 0,
            created: jiff::Timestamp::now(),
        };
        world.images.push(image.clone());
        Ok(image)
    }

    async fn delete_image(&self, id: &str) -> Result<()> {
        self.0.world().images.retain(|image| image.id != id);
        Ok(())
    }

    async fn volumes(&self, cluster: &str) -> Result<Vec<Volume>> {
        let world = self.0.world();
        Ok(world.volumes.iter().filter(|v| of(&v.labels, cluster).is_some()).cloned().collect())
    }

    async fn volume_by_name(&self, name: &str) -> Result<Option<Volume>> {
        Ok(self.0.world().volumes.iter().find(|volume| volume.name == name).cloned())
    }

    async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        let mut world = self.0.world();
        let volume = Volume {
            id: format!("volume-{}", world.number()),
            name: new.name,
            size_gib: new.size_gib,
            labels: new.labels,
            attached_to: Vec::new(),
            status: VolumeStatus::Usable,
            served: None,
        };
        world.volumes.push(volume.clone());
        Ok(volume)
    }

    async fn grow_volume(&self, id: &str, size_gib: u64) -> Result<Volume> {
        let mut world = self.0.world();
        let volume = world.volumes.iter_mut().find(|volume| volume.id == id);
        let volume = volume.ok_or_else(|| Error::not_found("volume", id))?;
        volume.size_gib = volume.size_gib.max(size_gib);
        Ok(volume.clone())
    }

    async fn delete_volume(&self, id: &str) -> Result<()> {
        self.0.world().volumes.retain(|volume| volume.id != id);
        Ok(())
    }

    async fn networks(&self, cluster: &str) -> Result<Vec<Network>> {
        let world = self.0.world();
        Ok(world.networks.iter().filter(|n| of(&n.labels, cluster).is_some()).cloned().collect())
    }

    async fn create_network(&self, new: NewNetwork) -> Result<Network> {
        let mut world = self.0.world();
        let network = Network {
            id: format!("network-{}", world.number()),
            name: new.name,
            cidr: new.cidr.unwrap_or_default(),
            labels: new.labels,
            lacks: None,
            api_url: None,
            automatic: Vec::new(),
        };
        world.networks.push(network.clone());
        Ok(network)
    }

    async fn delete_network(&self, id: &str) -> Result<()> {
        self.0.world().networks.retain(|network| network.id != id);
        Ok(())
    }

    async fn security_groups(&self, cluster: &str) -> Result<Vec<SecurityGroup>> {
        let world = self.0.world();
        Ok(world.groups.iter().filter(|g| of(&g.labels, cluster).is_some()).cloned().collect())
    }

    async fn create_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        let mut world = self.0.world();
        if let Some(group) = world.groups.iter_mut().find(|group| group.name == new.name) {
            group.rules.retain(|rule| !new.without.contains(rule) && !new.rules.contains(rule));
            group.rules.extend(new.rules);
            return Ok(group.clone());
        }
        let id = format!("group-{}", world.number());
        let group = SecurityGroup { id, name: new.name, labels: new.labels, rules: new.rules };
        world.groups.push(group.clone());
        Ok(group)
    }

    async fn delete_security_group(&self, id: &str) -> Result<()> {
        self.0.world().groups.retain(|group| group.id != id);
        Ok(())
    }

    async fn flavors(&self) -> Result<Vec<Flavor>> {
        Ok(self.0.world().flavors.clone())
    }
}
