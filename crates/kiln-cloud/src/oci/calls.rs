//! The driver's shape. What each call does is in the module of its subject.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::{Access, Driver};
use crate::{
    Flavor, Image, Instance, Kind, Labels, Network, NewImage, NewInstance, NewNetwork, NewSecurityGroup,
    NewVolume, Rebuild, Result, SecurityGroup, Volume,
};

impl crate::driver::Driver for Driver {
    type Access = Access;

    const POLL: Duration = Duration::from_secs(4);

    fn at(access: &Access) -> Result<Driver> {
        Driver::at(access)
    }

    async fn access(&self, _cluster: &str, _token: &str, _networks: &[Network]) -> Result<Access> {
        self.access()
    }

    async fn check(&self) -> Result<()> {
        self.check().await
    }

    /// The policy that an administrator has made once is what lets the control node work.
    async fn grant(&self, _cluster: &str, _token: &str) -> Result<()> {
        Ok(())
    }

    async fn revoke(&self, _cluster: &str) -> Result<()> {
        Ok(())
    }

    async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        self.instances(cluster).await
    }

    async fn instance(&self, id: &str) -> Result<Instance> {
        self.instance(id).await
    }

    async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        self.create(new).await
    }

    async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        self.rebuild(id, new).await
    }

    async fn reboot(&self, id: &str, hard: bool) -> Result<Instance> {
        self.reboot(id, hard).await
    }

    async fn stop(&self, id: &str, hard: bool) -> Result<Instance> {
        self.stop(id, hard).await
    }

    async fn start(&self, id: &str) -> Result<Instance> {
        self.start(id).await
    }

    async fn delete(&self, id: &str) -> Result<()> {
        self.delete(id).await
    }

    async fn delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>> {
        self.delete_all(ids, gone).await
    }

    async fn add_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        self.add_labels(id, labels).await
    }

    async fn label(&self, kind: Kind, id: &str, labels: Labels) -> Result<()> {
        match kind {
            Kind::Instance => self.add_labels(id, labels).await.map(drop),
            Kind::Volume => self.label_volume(id, &labels).await,
            Kind::Network => self.merge_tags("network", &path_of("vcns", "network", id)?, &labels).await,
            Kind::SecurityGroup => {
                let path = path_of("networkSecurityGroups", "security group", id)?;
                self.merge_tags("security group", &path, &labels).await
            }
            Kind::Image => self.add_properties(id, &labels).await,
        }
    }

    async fn set_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        self.set_labels(id, labels).await
    }

    async fn console_log(&self, id: &str, lines: usize) -> Result<String> {
        self.console_log(id, lines).await
    }

    async fn images(&self) -> Result<Vec<Image>> {
        self.images().await
    }

    async fn used_images(&self) -> Result<BTreeSet<String>> {
        self.used_images().await
    }

    async fn image(&self, id: &str) -> Result<Image> {
        self.image(id).await
    }

    async fn find_image(&self, name: &str) -> Result<Image> {
        self.find_image(name).await
    }

    async fn create_image(&self, instance: &str, new: NewImage) -> Result<Image> {
        self.create_image(instance, new).await
    }

    async fn clear_build(&self, cluster: &str) -> Result<()> {
        self.clear_build(cluster).await
    }

    async fn delete_image(&self, id: &str) -> Result<()> {
        self.delete_image(id).await
    }

    async fn volumes(&self, cluster: &str) -> Result<Vec<Volume>> {
        self.volumes(cluster).await
    }

    async fn volume_by_name(&self, name: &str) -> Result<Option<Volume>> {
        self.volume_by_name(name).await
    }

    async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        self.create_volume(new).await
    }

    async fn grow_volume(&self, id: &str, size_gib: u64) -> Result<Volume> {
        self.grow_volume(id, size_gib).await
    }

    async fn delete_volume(&self, id: &str) -> Result<()> {
        self.delete_volume(id).await
    }

    async fn networks(&self, cluster: &str) -> Result<Vec<Network>> {
        self.networks(cluster).await
    }

    async fn network_by_name(&self, name: &str) -> Result<Option<Network>> {
        self.network_by_name(name).await
    }

    async fn create_network(&self, new: NewNetwork) -> Result<Network> {
        self.create_network(new).await
    }

    async fn foreign_addresses(&self, network: &str, cluster: &str) -> Result<BTreeMap<IpAddr, String>> {
        self.foreign_addresses(network, cluster).await
    }

    async fn delete_network(&self, id: &str) -> Result<()> {
        self.delete_network(id).await
    }

    async fn security_groups(&self, cluster: &str) -> Result<Vec<SecurityGroup>> {
        self.security_groups(cluster).await
    }

    async fn create_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        self.create_security_group(new).await
    }

    async fn delete_security_group(&self, id: &str) -> Result<()> {
        self.delete_security_group(id).await
    }

    async fn flavors_named(&self, names: &[String]) -> Result<Vec<Flavor>> {
        self.flavors_named(names).await
    }

    async fn flavors(&self) -> Result<Vec<Flavor>> {
        self.flavors().await
    }
}

fn path_of(collection: &str, kind: &'static str, id: &str) -> Result<String> {
    Ok(format!("/{collection}/{}", super::driver::checked(kind, id)?))
}
