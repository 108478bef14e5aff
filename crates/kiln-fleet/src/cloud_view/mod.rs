//! The fleet's instances as the cloud shows them.

mod missing;

use std::collections::BTreeMap;

use kiln_cloud::retry::once;
use kiln_cloud::{Instance, InstanceStatus};
use kiln_wire::{FleetFile, labels};

use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::store::{KnownInstance, Store};
pub use missing::Unlisted;

/// The cluster's instances. A list of the cloud may lack some, so whoever wants to know whether a node has an instance asks this.
#[derive(Default)]
pub struct CloudView {
    /// Those that the cloud lists, and those that it shows when it is asked for them by id.
    pub instances: Vec<Instance>,
    /// Nodes of compute whose instance the list lacks, and that may well have one.
    pub unlisted: BTreeMap<String, Unlisted>,
    /// The cloud said of these ids that there is no such instance.
    gone: Vec<String>,
}

impl CloudView {
    /// Fails if the cloud's answer cannot be complete. Notes which instances of compute nodes there are.
    pub async fn read(store: &Store, fleet: &Fleet) -> Result<CloudView> {
        let view = CloudView::look(store, fleet).await?;
        view.gone.iter().try_for_each(|id| store.forget_instance(id))?;
        let ours = view.instances.iter().filter(|i| is_ours(i, &fleet.file));
        store.note_instances(ours.map(|i| (node_of(i), i)))?;
        Ok(view)
    }

    /// The same, without a note.
    pub async fn look(store: &Store, fleet: &Fleet) -> Result<CloudView> {
        // From before the list is asked for, so that what is created meanwhile is not among the missing.
        let known: BTreeMap<String, KnownInstance> = store.known_instances()?;
        let mut instances = fleet.cloud.instances(&fleet.file.cluster).await?;
        instances.retain(|i| is_of_cluster(i, &fleet.file));
        let is_control = |i: &Instance| i.labels.get(labels::ROLE).is_some_and(|role| role == "control");
        if !instances.iter().any(is_control) {
            let text = "the cloud does not list the control node: its answer is not complete";
            return Err(Error::Refused(text.into()));
        }
        let missing = missing::ask_for(store, fleet, &known, &instances).await;
        instances.extend(missing.found);
        Ok(CloudView { instances, unlisted: missing.unlisted, gone: missing.gone })
    }

    /// By node name. One that is being deleted counts only if the node has no other.
    pub fn nodes(&self) -> BTreeMap<&str, &Instance> {
        let is_going = |i: &&Instance| i.status == InstanceStatus::Deleting;
        let (going, stay): (Vec<&Instance>, Vec<&Instance>) = self.instances.iter().partition(is_going);
        going.into_iter().chain(stay).map(|instance| (node_of(instance), instance)).collect()
    }

    /// All of compute nodes, by node name: there may be several of one.
    pub fn by_compute_node(&self, file: &FleetFile) -> BTreeMap<String, Vec<Instance>> {
        let mut all: BTreeMap<String, Vec<Instance>> = BTreeMap::new();
        for instance in self.instances.iter().filter(|i| is_ours(i, file)) {
            all.entry(node_of(instance).to_string()).or_default().push(instance.clone());
        }
        all
    }

    /// Why nothing can be said about a node's instance, if so.
    pub fn doubt(&self, node: &str) -> Option<String> {
        match self.unlisted.get(node)? {
            Unlisted::NoAnswer(problem) => Some(format!(
                "the cloud's list lacks its instance, and the cloud does not say whether it is gone: {problem}"
            )),
            Unlisted::There => None,
        }
    }
}

/// The only way in which kilnd deletes an instance: only one with the labels of a compute node of its cluster, which are read
/// right before, and none that somebody has set aside.
pub async fn delete(store: &Store, fleet: &Fleet, id: &str) -> Result<()> {
    match fleet.cloud.instance(id).await {
        Ok(instance) if !is_ours(&instance, &fleet.file) => {
            return Err(Error::Refused(format!("instance {id} has other labels now")));
        }
        Ok(Instance { status: InstanceStatus::Held { how }, .. }) => {
            return Err(Error::Refused(format!("instance {id} is left as it is: {how}")));
        }
        // What the cloud does not take now is asked again after another look at Slurm, not by the driver.
        Ok(_) => once(fleet.cloud.delete(id)).await?,
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    store.forget_instance(id)
}

/// It has the labels of a compute node of this cluster: Kiln may delete it.
pub fn is_ours(instance: &Instance, file: &FleetFile) -> bool {
    is_of_cluster(instance, file) && has(instance, labels::ROLE, "compute")
}

/// Two clusters of one project may have the same name; the id tells them apart. Instances of earlier releases have none.
fn is_of_cluster(instance: &Instance, file: &FleetFile) -> bool {
    let id = instance.labels.get(labels::ID);
    has(instance, labels::CLUSTER, &file.cluster) && id.is_none_or(|id| Some(id) == file.cluster_id.as_ref())
}

fn has(instance: &Instance, key: &str, value: &str) -> bool {
    instance.labels.get(key).is_some_and(|found| found == value)
}

pub fn is_held(instance: &Instance) -> bool {
    matches!(instance.status, InstanceStatus::Held { .. })
}

/// The instance's image as the cloud shows it, or else as Kiln labelled it.
pub fn image_of(instance: &Instance) -> Option<&str> {
    instance.image.as_deref().or_else(|| instance.labels.get(labels::IMAGE).map(String::as_str))
}

pub fn node_of(instance: &Instance) -> &str {
    instance.labels.get(labels::NODE).map_or(instance.name.as_str(), String::as_str)
}

#[cfg(test)]
mod tests {
    use kiln_cloud::testing;

    use super::*;

    #[test]
    fn a_cluster_of_the_same_name_is_another() {
        let file = |id: Option<&str>| {
            let id = id.map(|id| format!(r#","cluster_id":"{id}""#)).unwrap_or_default();
            let text = format!(r#"{{"cluster":"c","cloud":{{"kind":"local"}},"nodes":{{}}{id}}}"#);
            serde_json::from_str::<FleetFile>(&text).unwrap()
        };
        let instance = |id: Option<&str>| {
            let mut instance = testing::instance("n-0");
            instance.labels = [(labels::CLUSTER, "c"), (labels::ROLE, "compute")]
                .into_iter()
                .chain(id.map(|id| (labels::ID, id)))
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect();
            instance
        };
        for (own, of_instance, ours) in [
            (Some("a1"), Some("a1"), true),
            (Some("a1"), Some("b2"), false),
            (None, Some("b2"), false),
            // Made by an earlier release.
            (Some("a1"), None, true),
            (None, None, true),
        ] {
            assert_eq!(is_ours(&instance(of_instance), &file(own)), ours, "{own:?} {of_instance:?}");
        }
    }
}
