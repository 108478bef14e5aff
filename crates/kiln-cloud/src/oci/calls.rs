//! The driver's shape. What each call does is in the module of its subject.

use std::collections::BTreeMap;
use std::time::Duration;

use super::region::Service::Core;
use super::{Access, Driver};
use crate::driver::own_methods;
use crate::{Flavor, Instance, Kind, Labels, Limit, Network, NewExports, Result, Right, Volume};

impl crate::driver::Driver for Driver {
    type Access = Access;

    const POLL: Duration = Duration::from_secs(4);

    own_methods!();

    fn at(access: &Access) -> Result<Driver> {
        Driver::at(access)
    }

    async fn access(&self, _cluster: &str, _token: &str, _networks: &[Network]) -> Result<Access> {
        self.access()
    }

    /// Rights come from a policy, not from a token.
    async fn grant(&self, _cluster: &str, _token: &str) -> Result<()> {
        Ok(())
    }

    async fn revoke(&self, cluster: &str) -> Result<()> {
        self.revoke(cluster).await
    }

    async fn rights(&self, cluster: &str, make: bool) -> Result<Vec<Right>> {
        self.rights(cluster, make).await
    }

    async fn label(&self, kind: Kind, id: &str, labels: Labels) -> Result<()> {
        match kind {
            Kind::Instance => self.add_labels(id, labels).await.map(drop),
            Kind::Volume => self.label_volume(id, &labels).await,
            Kind::Network => {
                self.merge_tags(Core, "network", &path_of("vcns", "network", id)?, &labels).await
            }
            Kind::SecurityGroup => {
                let path = path_of("networkSecurityGroups", "security group", id)?;
                self.merge_tags(Core, "security group", &path, &labels).await
            }
            Kind::Image => self.add_properties(id, &labels).await,
        }
    }

    async fn create_file_system(&self, name: &str, labels: Labels) -> Result<Volume> {
        self.create_file_system(name, labels).await
    }

    async fn export(&self, new: NewExports) -> Result<BTreeMap<String, String>> {
        self.export(new).await
    }

    async fn flavors_named(&self, names: &[String]) -> Result<Vec<Flavor>> {
        self.flavors_named(names).await
    }

    async fn switches(&self, instances: &[Instance]) -> Result<BTreeMap<String, Vec<String>>> {
        self.switches(instances).await
    }

    async fn limits(&self, flavors: &[String]) -> Result<Vec<Limit>> {
        self.limits(flavors).await
    }
}

fn path_of(collection: &str, kind: &'static str, id: &str) -> Result<String> {
    Ok(format!("/{collection}/{}", super::driver::checked(kind, id)?))
}
