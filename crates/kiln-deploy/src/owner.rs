//! Whose a cluster is. Names are chosen by people, and two may choose the same in one project: the id in `.kiln`, which
//! every resource carries, tells them apart. Resources of another id are never touched.

use std::collections::BTreeSet;

use kiln_cloud::{InstanceStatus, Kind, Labels};
use kiln_spec::Spec;
use kiln_wire::labels;
use serde::Serialize;

use crate::addresses::is_own;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;

/// A resource that the cloud lists for the cluster's name.
pub struct Listed<'a> {
    pub kind: Kind,
    pub name: &'a str,
    pub labels: &'a Labels,
}

/// A resource without an id, as earlier releases made them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmarked {
    pub kind: Kind,
    pub id: String,
    pub name: String,
}

/// Refuses if one of them carries another id than `own`.
pub fn check<'a>(
    cluster: &str,
    own: Option<&str>,
    listed: impl IntoIterator<Item = Listed<'a>>,
) -> Result<()> {
    let id = |labels: &'a Labels| labels.get(labels::ID).map(String::as_str);
    let foreign = |listed: &Listed<'a>| id(listed.labels).is_some_and(|id| Some(id) != own);
    match listed.into_iter().find(foreign) {
        None => Ok(()),
        Some(other) => Err(Error::OtherCluster {
            cluster: cluster.to_string(),
            what: format!("{} {}", other.kind.word(), other.name),
            id: id(other.labels).unwrap_or_default().to_string(),
        }),
    }
}

impl Observed {
    /// All that the cloud lists for the cluster's name, with the instance of an image build.
    pub(crate) fn listed<'a>(&'a self, cluster: &'a str) -> impl Iterator<Item = Listed<'a>> {
        // The network may be one that the cluster only uses.
        let own = move |labels: &Labels| labels.get(labels::CLUSTER).is_none_or(|name| name == cluster);
        let networks = self.networks.iter().filter(move |n| own(&n.labels));
        let networks = networks.map(|n| Listed { kind: Kind::Network, name: &n.name, labels: &n.labels });
        let groups = self.security_groups.iter();
        let groups = groups.map(|g| Listed { kind: Kind::SecurityGroup, name: &g.name, labels: &g.labels });
        let volumes = self.volumes.iter();
        let volumes = volumes.map(|v| Listed { kind: Kind::Volume, name: &v.name, labels: &v.labels });
        let instances = self.instances.iter().chain(&self.build);
        let instances = instances.map(|i| Listed { kind: Kind::Instance, name: &i.name, labels: &i.labels });
        networks.chain(groups).chain(volumes).chain(instances)
    }

    /// Those that stay and have no id yet.
    pub(crate) fn unmarked(&self, spec: &Spec) -> Vec<Unmarked> {
        let without = |labels: &Labels| !labels.contains_key(labels::ID);
        let of = |kind, id: &str, name: &str| Unmarked { kind, id: id.to_string(), name: name.to_string() };
        let own = self.networks.iter().filter(|n| is_own(spec, n));
        let networks = own.filter(|n| without(&n.labels)).map(|n| of(Kind::Network, &n.id, &n.name));
        let groups = self.security_groups.iter().filter(|g| without(&g.labels));
        let groups = groups.map(|g| of(Kind::SecurityGroup, &g.id, &g.name));
        let volumes = self.volumes.iter().filter(|v| without(&v.labels));
        let volumes = volumes.map(|v| of(Kind::Volume, &v.id, &v.name));
        let stays = |status: &InstanceStatus| {
            !matches!(status, InstanceStatus::Error { .. } | InstanceStatus::Deleting)
        };
        let instances = self.instances.iter().filter(|i| without(&i.labels) && stays(&i.status));
        let instances = instances.map(|i| of(Kind::Instance, &i.id, &i.name));
        networks.chain(groups).chain(volumes).chain(instances).collect()
    }
}

impl Deployment<'_> {
    /// Refuses if the cloud has another cluster of this name.
    pub fn check_owner(&self, observed: &Observed) -> Result<()> {
        let own = self.secrets.cluster_id()?;
        check(&self.spec.name, own.as_deref(), observed.listed(&self.spec.name))
    }

    /// The id that the resources of the cluster's name carry, for one whose `.kiln` was lost.
    pub async fn id_in_cloud(&self) -> Result<String> {
        let cluster = &self.spec.name;
        let observed = self.observe().await?;
        let ids: BTreeSet<&String> =
            observed.listed(cluster).filter_map(|listed| listed.labels.get(labels::ID)).collect();
        match ids.iter().copied().collect::<Vec<_>>().as_slice() {
            [] => Err(Error::NotReady(format!("nothing in the cloud carries an id of a cluster {cluster}"))),
            [id] => Ok((*id).clone()),
            many => {
                let many: Vec<&str> = many.iter().map(|id| id.as_str()).collect();
                Err(Error::NotReady(format!(
                    "the cloud has several clusters {cluster}, with the ids {}",
                    many.join(", ")
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ones_own_id_or_none_is_accepted() {
        let labelled = |id: Option<&str>| -> Labels {
            id.map(|id| (labels::ID.to_string(), id.to_string())).into_iter().collect()
        };
        let rows = [
            (Some("a"), Some("a"), true),
            (Some("a"), None, true),
            (None, None, true),
            (Some("a"), Some("b"), false),
            (None, Some("b"), false),
        ];
        for (own, there, accepted) in rows {
            let labels = labelled(there);
            let listed = Listed { kind: Kind::Volume, name: "demo-home", labels: &labels };
            let result = check("demo", own, [listed]);
            assert_eq!(result.is_ok(), accepted, "{own:?} {there:?}");
            if let Err(error) = result {
                assert_eq!(
                    error.to_string(),
                    "the cloud has another cluster demo: volume demo-home belongs to the one with the id b"
                );
            }
        }
    }
}
