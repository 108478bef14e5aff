//! Takes the cluster down, in reverse order. Everything is found by label, also what a crashed run left behind.

use kiln_image::Event;

use crate::deployment::Deployment;
use crate::error::Result;

/// How many instances are asked for at a time before somebody who wants to stop is heard.
const BATCH: usize = 100;

/// What `destroy` would take away.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Belongings {
    pub instances: Vec<(String, String)>,
    pub security_groups: Vec<(String, String)>,
    pub networks: Vec<(String, String)>,
    pub volumes: Vec<(String, String)>,
}

impl Belongings {
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
            && self.security_groups.is_empty()
            && self.networks.is_empty()
            && self.volumes.is_empty()
    }
}

impl Deployment<'_> {
    pub async fn belongings(&self, keep_volumes: bool) -> Result<Belongings> {
        let cluster = self.spec.name.as_str();
        let (instances, groups, networks, volumes) = tokio::try_join!(
            self.cloud.instances(cluster),
            self.cloud.security_groups(cluster),
            self.cloud.networks(cluster),
            self.cloud.volumes(cluster),
        )?;
        let kept = |name: &str| keep_volumes && !name.ends_with("-share");
        Ok(Belongings {
            instances: instances.into_iter().map(|i| (i.id, i.name)).collect(),
            security_groups: groups.into_iter().map(|g| (g.id, g.name)).collect(),
            networks: networks.into_iter().map(|n| (n.id, n.name)).collect(),
            volumes: volumes.into_iter().filter(|v| !kept(&v.name)).map(|v| (v.id, v.name)).collect(),
        })
    }

    pub async fn destroy(&self, belongings: &Belongings) -> Result<()> {
        // From here on kilnd makes nothing new.
        self.cloud.revoke(&self.spec.name).await?;
        let gone = |what: &str, name: &str| (self.progress)(Event::done(format!("{what}{name}"), "deleted"));
        // What it made between the listing and this moment goes too.
        let mut instances = belongings.instances.clone();
        let late = self.cloud.instances(&self.spec.name).await?;
        instances.extend(
            late.into_iter()
                .filter(|i| belongings.instances.iter().all(|b| b.0 != i.id))
                .map(|i| (i.id, i.name)),
        );
        for batch in instances.chunks(BATCH) {
            self.check_stop()?;
            let ids: Vec<String> = batch.iter().map(|(id, _)| id.clone()).collect();
            let name =
                |id: &str| batch.iter().find(|(i, _)| i == id).map_or(id.to_string(), |(_, n)| n.clone());
            let deleted = self.cloud.delete_all(&ids, &|id| gone("", &name(id))).await;
            deleted.into_iter().collect::<kiln_cloud::Result<Vec<()>>>()?;
        }
        self.check_stop()?;
        self.cloud.sweep(&self.spec.name).await?;
        for (id, name) in &belongings.security_groups {
            self.cloud.delete_security_group(id).await?;
            gone("security group ", name);
        }
        for (id, name) in &belongings.networks {
            self.cloud.delete_network(id).await?;
            gone("network ", name);
        }
        for (id, name) in &belongings.volumes {
            self.cloud.delete_volume(id).await?;
            gone("volume ", name);
        }
        self.cloud.retire().await?;
        Ok(())
    }
}
