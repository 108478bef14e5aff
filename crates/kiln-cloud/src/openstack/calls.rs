//! The driver's shape. What each call does is in the module of its subject.

use std::fs::File;
use std::time::Duration;

use super::{Access, Driver};
use crate::driver::own_methods;
use crate::{AddressRange, Expiry, Kind, Labels, Network, Quota, Result};

impl crate::driver::Driver for Driver {
    type Access = Access;

    const POLL: Duration = Duration::from_secs(1);

    own_methods!();

    fn at(access: &Access) -> Result<Driver> {
        Driver::at(access)
    }

    async fn access(&self, cluster: &str, token: &str, _networks: &[Network]) -> Result<Access> {
        self.access(cluster, token).await
    }

    async fn grant(&self, cluster: &str, token: &str) -> Result<()> {
        self.grant(cluster, token).await
    }

    async fn revoke(&self, cluster: &str) -> Result<()> {
        self.revoke(cluster).await
    }

    async fn label(&self, kind: Kind, id: &str, labels: Labels) -> Result<()> {
        match kind {
            Kind::Instance => self.add_labels(id, labels).await.map(drop),
            Kind::Volume => self.label_volume(id, &labels).await,
            Kind::Network => self.tag("networks", id, &labels).await,
            Kind::SecurityGroup => self.tag("security-groups", id, &labels).await,
            Kind::Image => self.add_properties(id, &labels).await,
        }
    }

    async fn download_image(&self, image: &str, to: &File) -> Result<()> {
        self.download_image(image, to).await
    }

    async fn set_automatic(&self, network: &str, ranges: Vec<AddressRange>) -> Result<()> {
        self.set_automatic(network, &ranges).await
    }

    async fn quotas(&self) -> Result<Vec<Quota>> {
        self.quotas().await
    }

    async fn expiries(&self, cluster: &str) -> Result<Vec<Expiry>> {
        self.expiries(cluster).await
    }

    async fn certificates(&self) -> Result<Vec<Expiry>> {
        self.certificates().await
    }
}
