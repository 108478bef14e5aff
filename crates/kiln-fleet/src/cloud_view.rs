//! The fleet's instances as the cloud shows them.

use std::collections::BTreeMap;

use kiln_cloud::{Instance, label};

use crate::fleet_file::Fleet;

/// By node name.
pub async fn instances(fleet: &Fleet) -> kiln_cloud::Result<BTreeMap<String, Instance>> {
    let all = fleet.cloud.instances(&fleet.file.cluster).await?;
    Ok(all.into_iter().map(|instance| (node_of(&instance).to_string(), instance)).collect())
}

/// By node name, also those of which there are several.
pub async fn by_node(fleet: &Fleet) -> kiln_cloud::Result<BTreeMap<String, Vec<Instance>>> {
    let mut all: BTreeMap<String, Vec<Instance>> = BTreeMap::new();
    for instance in fleet.cloud.instances(&fleet.file.cluster).await? {
        all.entry(node_of(&instance).to_string()).or_default().push(instance);
    }
    Ok(all)
}

fn node_of(instance: &Instance) -> &str {
    instance.labels.get(label::NODE).map_or(instance.name.as_str(), String::as_str)
}
