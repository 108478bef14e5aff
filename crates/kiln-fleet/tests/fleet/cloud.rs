//! Kiln's in-memory cloud with the cluster's instances in it.

use std::ops::Deref;

use kiln_cloud::memory::{Fault, Memory};
use kiln_cloud::{Error, Instance, testing};
use kiln_wire::labels;

/// What the test does with its cloud; the daemon finds it by its name.
pub struct TestCloud(Memory);

impl TestCloud {
    /// The nodes and the control node, all of this image.
    pub fn new(name: &str, nodes: &[&str], image: &str) -> TestCloud {
        let cloud = TestCloud(Memory::new(name));
        for node in nodes {
            cloud.0.put(instance(node, image));
        }
        let mut control = instance("control", image);
        control.labels.insert(labels::ROLE.into(), "control".into());
        cloud.0.put(control);
        cloud
    }

    /// As the fleet file has it.
    pub fn access(&self) -> String {
        serde_json::to_string(&self.0.access()).unwrap()
    }

    pub fn instance(&self, node: &str) -> Instance {
        self.0.instance(node).unwrap()
    }

    /// Changes an instance, which is made if it is not there.
    pub fn put(&self, id: &str, change: impl FnOnce(&mut Instance)) {
        let mut new = self.0.instance(id).unwrap_or_else(|| instance(id, "old"));
        change(&mut new);
        self.0.put(new);
    }

    /// Every such call fails until [`Memory::heal`].
    pub fn refuse(&self, call: &str, error: Error) {
        self.fail(call, Fault::always(error));
    }
}

impl Deref for TestCloud {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.0
    }
}

fn instance(name: &str, image: &str) -> Instance {
    let labels = [(labels::CLUSTER, "c"), (labels::ROLE, "compute"), (labels::NODE, name), ("mine", "kept")];
    Instance {
        image: Some(image.into()),
        labels: labels.map(|(k, v)| (k.to_string(), v.to_string())).into(),
        built: Some(jiff::Timestamp::UNIX_EPOCH),
        ..testing::instance(name)
    }
}
