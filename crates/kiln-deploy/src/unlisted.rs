//! Instances that the cloud's list lacks. Nova, for one, leaves out the servers of a cell that does not answer. A node that would
//! be created a second time is looked for by the ids that it may have: those that the cluster's volumes are attached to, and
//! those that kilnd has seen.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_cloud::{Cloud, Instance, InstanceStatus};
use kiln_wire::{KnownInstances, labels};

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::bounded;
use crate::observe::Observed;

/// How long a control node may take to answer. One that does not must still be replaceable.
const ASK_LIMIT: Duration = Duration::from_secs(15);
const AT_A_TIME: usize = 16;

impl Deployment<'_> {
    /// Adds to `observed` what its list of instances lacks. Fails if the cloud does not say whether an instance is there.
    pub(crate) async fn complete(&self, observed: &mut Observed) -> Result<()> {
        if self.absent(observed).is_empty() {
            return Ok(());
        }
        let attached =
            observed.volumes.iter().flat_map(|volume| volume.attached_to.iter().cloned()).collect();
        let found = ask_for(&self.cloud, &self.spec.name, unlisted(attached, observed)).await?;
        observed.instances.extend(found);
        let absent = self.absent(observed);
        let control = observed.nodes().get(self.spec.control.node.as_str()).copied();
        if absent.is_empty() || control.is_none_or(|control| control.status != InstanceStatus::Active) {
            return Ok(());
        }
        // Nothing is known on a control node that was never configured, or by a kilnd of an earlier release.
        let answer = async { self.control(observed)?.ask::<KnownInstances>(&["instances"], b"").await };
        let Ok(Ok(mut known)) = tokio::time::timeout(ASK_LIMIT, answer).await else { return Ok(()) };
        let ids = absent.iter().filter_map(|node| known.nodes.remove(node)).flatten().collect();
        let found = ask_for(&self.cloud, &self.spec.name, unlisted(ids, observed)).await?;
        observed.instances.extend(found);
        Ok(())
    }

    /// Nodes that would be created.
    fn absent(&self, observed: &Observed) -> Vec<String> {
        let there = observed.nodes();
        let fixed = self.spec.nodes().filter(|node| !node.elastic);
        fixed.filter(|node| !there.contains_key(node.name)).map(|node| node.name.to_string()).collect()
    }
}

/// A list, with what it lacks of the instances that were `seen` before and are still there.
pub(crate) async fn with_unlisted(
    cloud: &Cloud,
    cluster: &str,
    mut listed: Vec<Instance>,
    seen: &[Instance],
) -> Result<Vec<Instance>> {
    let is_listed = |id: &str| listed.iter().any(|instance| instance.id == id);
    let lacking = seen.iter().map(|instance| instance.id.clone()).filter(|id| !is_listed(id)).collect();
    listed.extend(ask_for(cloud, cluster, lacking).await?);
    Ok(listed)
}

fn unlisted(mut ids: BTreeSet<String>, observed: &Observed) -> Vec<String> {
    ids.retain(|id| !observed.instances.iter().chain(&observed.build).any(|instance| instance.id == *id));
    ids.into_iter().collect()
}

/// Those that are nodes of the cluster.
async fn ask_for(cloud: &Cloud, cluster: &str, ids: Vec<String>) -> Result<Vec<Instance>> {
    let ask = |id: String| async move {
        match cloud.instance(&id).await {
            Ok(instance) => Ok(Some(instance)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(source) => Err(Error::Unlisted { id, source }),
        }
    };
    let answers: Vec<Option<Instance>> =
        bounded(ids, AT_A_TIME, ask).await.into_iter().collect::<Result<_>>()?;
    let is_node = |i: &Instance| {
        i.labels.get(labels::CLUSTER).is_some_and(|name| name == cluster)
            && i.labels.contains_key(labels::NODE)
    };
    let stays = |i: &Instance| i.status != InstanceStatus::Deleting;
    Ok(answers.into_iter().flatten().filter(|i| is_node(i) && stays(i)).collect())
}

#[cfg(test)]
mod tests {
    use kiln_cloud::memory::{Fault, Memory};
    use kiln_cloud::testing;

    use super::*;

    #[tokio::test]
    async fn what_a_list_lacks_is_asked_for_by_its_id() {
        let memory = Memory::new("unlisted");
        let labels = [(labels::CLUSTER, "c"), (labels::NODE, "n-0")];
        let mut instance = testing::instance("n-0");
        instance.labels = labels.map(|(key, value)| (key.to_string(), value.to_string())).into();
        memory.put(instance);
        memory.put(testing::instance("of-another"));
        memory.hide("n-0");
        let cloud = memory.cloud();
        let ids = || vec!["n-0".to_string(), "of-another".to_string(), "long-gone".to_string()];
        let found = ask_for(&cloud, "c", ids()).await.unwrap();
        assert_eq!(found.iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), ["n-0"]);
        // One that was seen before is still there; others are as the list says.
        let seen = [cloud.instance("n-0").await.unwrap(), testing::instance("long-gone")];
        let listed = with_unlisted(&cloud, "c", vec![testing::instance("n-1")], &seen).await.unwrap();
        assert_eq!(listed.iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), ["n-1", "n-0"]);
        // Nobody can say: nothing may be created.
        memory.fail("show", Fault::always(kiln_cloud::Error::failed("the cell does not answer")));
        let error = ask_for(&cloud, "c", ids()).await.unwrap_err();
        assert!(
            error.hint().is_some() && error.chain().contains("the cell does not answer"),
            "{}",
            error.chain()
        );
    }
}
