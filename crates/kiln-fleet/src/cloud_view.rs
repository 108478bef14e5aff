//! The fleet's instances as the cloud shows them.

use std::collections::BTreeMap;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_wire::labels;

use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::store::Store;

/// All of the cluster, by node name.
pub async fn instances(fleet: &Fleet) -> kiln_cloud::Result<BTreeMap<String, Instance>> {
    let all = fleet.cloud.instances(&fleet.file.cluster).await?;
    Ok(all.into_iter().map(|instance| (node_of(&instance).to_string(), instance)).collect())
}

/// All of compute nodes, by node name: there may be several of one.
pub async fn by_node(fleet: &Fleet) -> kiln_cloud::Result<BTreeMap<String, Vec<Instance>>> {
    let mut all: BTreeMap<String, Vec<Instance>> = BTreeMap::new();
    let instances = fleet.cloud.instances(&fleet.file.cluster).await?;
    for instance in instances.into_iter().filter(|i| is_ours(i, &fleet.file.cluster)) {
        all.entry(node_of(&instance).to_string()).or_default().push(instance);
    }
    Ok(all)
}

/// The only way in which kilnd deletes an instance: only one with the labels of a compute node of its cluster, which are read
/// right before, and none that somebody has set aside.
pub async fn delete(store: &Store, fleet: &Fleet, id: &str) -> Result<()> {
    match fleet.cloud.instance(id).await {
        Ok(instance) if !is_ours(&instance, &fleet.file.cluster) => {
            return Err(Error::Refused(format!("instance {id} has other labels now")));
        }
        Ok(Instance { status: InstanceStatus::Held { how }, .. }) => {
            return Err(Error::Refused(format!("instance {id} is left as it is: {how}")));
        }
        Ok(_) => fleet.cloud.delete(id).await?,
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    store.forget_instance(id)
}

/// It has the labels of a compute node of this cluster: Kiln may delete it.
pub fn is_ours(instance: &Instance, cluster: &str) -> bool {
    let says = |key: &str, value: &str| instance.labels.get(key).is_some_and(|found| found == value);
    says(labels::CLUSTER, cluster) && says(labels::ROLE, "compute")
}

/// The instance's image as the cloud shows it, or else as Kiln labelled it.
pub fn image_of(instance: &Instance) -> Option<&str> {
    instance.image.as_deref().or_else(|| instance.labels.get(labels::IMAGE).map(String::as_str))
}

pub fn node_of(instance: &Instance) -> &str {
    instance.labels.get(labels::NODE).map_or(instance.name.as_str(), String::as_str)
}
