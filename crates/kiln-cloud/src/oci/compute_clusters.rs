//! Compute clusters: instances of shapes with RDMA reach one another over it only within one. Each group of compute nodes has
//! one in each availability domain that it has such nodes in; it is made with the first and goes when the cluster does.

use serde_json::json;

use super::client::Call;
use super::domains::short;
use super::driver::{Driver, cluster_of};
use super::region::Service::Core;
use super::wire::Part;
use crate::remote::encode;
use crate::retry::{Policy, retry};
use crate::{Labels, NewInstance, Result};
use kiln_wire::labels;

const KIND: &str = "computeClusters";

impl Driver {
    /// The one that a new instance belongs in, found or made. `None`: it is no compute node, or has no RDMA.
    pub(super) async fn compute_cluster_for(
        &self,
        new: &NewInstance,
        domain: &str,
    ) -> Result<Option<String>> {
        let Some(name) = name_for(&new.labels, domain) else { return Ok(None) };
        if !self.sized_shape(&new.flavor).await?.0.has_rdma() {
            return Ok(None);
        }
        let own = |key: &str| new.labels.get(key).map(|value| (key.to_string(), value.clone()));
        let tags: Labels = [labels::CLUSTER, labels::ID].into_iter().filter_map(own).collect();
        let body = &json!({ "compartmentId": self.settings.compartment, "availabilityDomain": domain,
                            "displayName": name, "freeformTags": tags });
        let token = &super::client::retry_token();
        let (name, tags) = (&name, &tags);
        // The nodes of a group come together, and names mean nothing to Oracle.
        let _alone = self.known.compute_clusters.lock().await;
        let found: Part = retry(&Policy::REMOTE, |_| async move {
            let path = format!(
                "{}&availabilityDomain={}&displayName={}",
                self.in_compartment(KIND),
                encode(domain),
                encode(name)
            );
            let there: Vec<Part> = self.client.list(Core, &path).await?;
            let own = |part: &Part| is_active(part) && cluster_of(&part.freeform_tags) == cluster_of(tags);
            if let Some(own) = there.into_iter().find(own) {
                return Ok(own);
            }
            let call = Call::post(Core, format!("/{KIND}"), body).with_token(token);
            self.client.send_once(&call).await?.read("a compute cluster")
        })
        .await?;
        Ok(Some(found.id))
    }

    /// When all instances are gone.
    pub(super) async fn sweep_compute_clusters(&self, cluster: &str) -> Result<()> {
        let all: Vec<Part> = self.client.list(Core, &self.in_compartment(KIND)).await?;
        let own = |part: &&Part| is_active(part) && cluster_of(&part.freeform_tags) == Some(cluster);
        for left in all.iter().filter(own) {
            let path = format!("/{KIND}/{}", left.id);
            self.while_busy(|| self.client.delete(Core, &path)).await?;
        }
        Ok(())
    }
}

fn is_active(part: &Part) -> bool {
    part.lifecycle_state == "ACTIVE"
}

/// `demo-hpc-ad1`, for compute nodes.
fn name_for(all: &Labels, domain: &str) -> Option<String> {
    let group = all.get(labels::GROUP)?.strip_prefix("compute.")?;
    Some(format!("{}-{group}-{}", cluster_of(all)?, short(domain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compute_nodes_have_one() {
        let named = |group: &str| {
            let all = [(labels::CLUSTER, "demo"), (labels::GROUP, group)];
            name_for(&all.map(|(key, value)| (key.to_string(), value.to_string())).into(), "Uocm:PHX-AD-2")
        };
        assert_eq!(named("compute.hpc").unwrap(), "demo-hpc-ad2");
        assert_eq!(named("control"), None);
        assert_eq!(named("login.login"), None);
    }
}
