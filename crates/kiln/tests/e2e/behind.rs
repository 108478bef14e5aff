//! The cloud, used behind Kiln's back.

use kiln_cloud::{Cloud, Instance, Labels, NewInstance};
use kiln_wire::{Attachment, labels};

use crate::lab::cloud_root;

/// Of the scenarios.
pub const CLUSTER: &str = "e2e";

/// Does something behind Kiln's back.
pub fn cloud<T>(work: impl AsyncFnOnce(&Cloud) -> kiln_cloud::Result<T>) -> T {
    let cloud = Cloud::local_with(cloud_root(), env!("CARGO_BIN_EXE_kiln").into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work(&cloud)).expect("the cloud does it")
}

pub fn instances(node: &str) -> Vec<Instance> {
    let all = cloud(async |cloud| cloud.instances(CLUSTER).await);
    all.into_iter().filter(|i| i.labels.get(labels::NODE).is_some_and(|name| name == node)).collect()
}

/// The instance of a node that has one.
pub fn only(node: &str) -> Instance {
    let mut all = instances(node);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Another instance like a fixed node's, with other labels.
pub fn make(name: &str, labels: &[(&str, &str)]) -> Instance {
    let model = only("standard-1");
    let network = cloud(async |cloud| cloud.networks(CLUSTER).await).remove(0).id;
    let labels = [(labels::CLUSTER, CLUSTER)].iter().chain(labels);
    let new = NewInstance {
        name: name.into(),
        image: model.image.expect("an image"),
        flavor: model.flavor,
        public: false,
        zone: None,
        network,
        address: None,
        security_groups: vec![],
        user_data: "".into(),
        ssh_key: String::new(),
        labels: labels.map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect::<Labels>(),
        volumes: Vec::<Attachment>::new(),
        disk_gib: None,
        request: None,
    };
    cloud(async |cloud| cloud.create(vec![new]).await.remove(0))
}
