//! Deletes the cluster, in reverse order of creation. Everything is found by label, including what a crashed run left.

use kiln_cloud::{Instance, Kind, Labels};
use kiln_image::Event;
use kiln_wire::labels;

use crate::deployment::Deployment;
use crate::error::Result;
use crate::owner::{self, Listed};

/// How many instances are deleted between two checks whether to stop.
const BATCH: usize = 100;

/// With a credential of the site's own, kilnd may create instances until the control node is gone. The second round has those.
const ROUNDS: usize = 3;

/// What `destroy` would delete.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct ClusterResources {
    pub instances: Vec<(String, String)>,
    pub security_groups: Vec<(String, String)>,
    pub networks: Vec<(String, String)>,
    pub volumes: Vec<(String, String)>,
}

impl ClusterResources {
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
            && self.security_groups.is_empty()
            && self.networks.is_empty()
            && self.volumes.is_empty()
    }
}

/// In which wave an instance is deleted. Control is last: while it exists, the cluster that an interrupted run leaves can
/// still be inspected.
fn wave(labels: &Labels) -> u8 {
    match labels.get(labels::ROLE).map(String::as_str) {
        Some("control") => 2,
        Some("login") => 1,
        _ => 0,
    }
}

impl Deployment<'_> {
    pub async fn cluster_resources(&self, keep_volumes: bool) -> Result<ClusterResources> {
        let cluster = self.spec.name.as_str();
        let (instances, groups, networks, volumes) = tokio::try_join!(
            self.cloud.instances(cluster),
            self.cloud.security_groups(cluster),
            self.cloud.networks(cluster),
            self.cloud.volumes(cluster),
        )?;
        let own = self.secrets.cluster_id()?;
        let listed =
            (instances.iter().map(|i| Listed { kind: Kind::Instance, name: &i.name, labels: &i.labels }))
                .chain(groups.iter().map(|g| Listed {
                    kind: Kind::SecurityGroup,
                    name: &g.name,
                    labels: &g.labels,
                }))
                .chain(networks.iter().map(|n| Listed {
                    kind: Kind::Network,
                    name: &n.name,
                    labels: &n.labels,
                }))
                .chain(volumes.iter().map(|v| Listed {
                    kind: Kind::Volume,
                    name: &v.name,
                    labels: &v.labels,
                }));
        owner::check(cluster, own.as_deref(), listed)?;
        let kept = |name: &str| keep_volumes && !name.ends_with("-share");
        Ok(ClusterResources {
            instances: instances.into_iter().map(|i| (i.id, i.name)).collect(),
            security_groups: groups.into_iter().map(|g| (g.id, g.name)).collect(),
            networks: networks.into_iter().map(|n| (n.id, n.name)).collect(),
            volumes: volumes.into_iter().filter(|v| !kept(&v.name)).map(|v| (v.id, v.name)).collect(),
        })
    }

    pub async fn destroy(&self, cluster_resources: &ClusterResources) -> Result<()> {
        // From here on kilnd cannot create instances, unless it has a credential of the site's own.
        self.cloud.revoke(&self.spec.name).await?;
        let gone = |what: &str, name: &str| (self.progress)(Event::done(format!("{what}{name}"), "deleted"));
        // Listed again, to include what kilnd created in the meantime.
        for _ in 0..ROUNDS {
            let instances = self.cloud.instances(&self.spec.name).await?;
            if instances.is_empty() {
                break;
            }
            self.delete_instances(instances).await?;
        }
        self.check_stop()?;
        self.cloud.sweep(&self.spec.name).await?;
        for (id, name) in &cluster_resources.security_groups {
            self.cloud.delete_security_group(id).await?;
            gone("security group ", name);
        }
        for (id, name) in &cluster_resources.networks {
            self.cloud.delete_network(id).await?;
            gone("network ", name);
        }
        for (id, name) in &cluster_resources.volumes {
            self.cloud.delete_volume(id).await?;
            gone("volume ", name);
        }
        self.cloud.retire().await?;
        Ok(())
    }

    /// The control node last.
    async fn delete_instances(&self, mut instances: Vec<Instance>) -> Result<()> {
        let own = self.secrets.cluster_id()?;
        let listed =
            instances.iter().map(|i| Listed { kind: Kind::Instance, name: &i.name, labels: &i.labels });
        owner::check(&self.spec.name, own.as_deref(), listed)?;
        instances.sort_by_key(|i| wave(&i.labels));
        for together in instances.chunk_by(|a, b| wave(&a.labels) == wave(&b.labels)) {
            for batch in together.chunks(BATCH) {
                self.check_stop()?;
                let ids: Vec<String> = batch.iter().map(|i| i.id.clone()).collect();
                let is_gone = |id: &str| {
                    let name = batch.iter().find(|i| i.id == id).map_or(id, |i| i.name.as_str());
                    (self.progress)(Event::done(name, "deleted"));
                };
                let deleted = self.cloud.delete_all(&ids, &is_gone).await;
                deleted.into_iter().collect::<kiln_cloud::Result<Vec<()>>>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_goes_last_and_strangers_go_first() {
        let mut roles = ["control", "login", "compute", "build", ""];
        roles.sort_by_key(|role| wave(&Labels::from([(labels::ROLE.to_string(), (*role).to_string())])));
        assert_eq!(roles, ["compute", "build", "", "login", "control"]);
        assert_eq!(wave(&Labels::new()), 0);
    }
}
