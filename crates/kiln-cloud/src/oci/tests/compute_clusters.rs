//! Shapes with RDMA.

use std::collections::BTreeMap;

use super::*;
use crate::Instance;

const RDMA: &str = "BM.HPC2.36";

impl Site {
    fn in_group(&self, name: &str, group: &str, flavor: &str) -> NewInstance {
        let mut new = NewInstance { flavor: flavor.into(), ..self.wanted(name) };
        new.labels.insert(labels::GROUP.into(), group.into());
        new
    }
}

/// The nodes of a group are in one, whoever launches them and when; others are in none.
#[tokio::test]
async fn nodes_with_rdma_share_a_compute_cluster() {
    let site = Site::new().await;
    site.fake.order(Fault::lose_answer("POST /20160918/computeClusters"));
    let new = ["n-0", "n-1", "n-2"].map(|name| site.in_group(name, "compute.hpc", RDMA));
    for made in site.cloud.create(new.into()).await {
        made.unwrap();
    }
    let later = site.fake.cloud().unwrap();
    later.create(vec![site.in_group("n-3", "compute.hpc", RDMA)]).await.pop().unwrap().unwrap();
    for name in ["n-0", "n-1", "n-2", "n-3"] {
        assert_eq!(site.fake.compute_clusters_of(name), ["demo-hpc-ad1"], "{name}");
    }
    let clusters =
        |site: &Site| site.fake.left().iter().filter(|what| what.starts_with("computeClusters")).count();
    assert_eq!((clusters(&site), site.fake.faults_left()), (1, vec![]));
    // In another domain, in another group, and those that are not for it.
    site.fake.fill(DOMAINS[0], RDMA);
    site.create(site.in_group("n-4", "compute.hpc", RDMA)).await.unwrap();
    site.fake.forget_room();
    site.create(site.in_group("o-0", "compute.other", RDMA)).await.unwrap();
    site.create(site.in_group("plain", "compute.hpc", SHAPE)).await.unwrap();
    site.create(site.in_group("control", "control", RDMA)).await.unwrap();
    let of = |name: &str| site.fake.compute_clusters_of(name).join(" ");
    assert_eq!(["n-4", "plain", "control"].map(of), ["demo-hpc-ad2", "", ""]);
    assert_eq!(of("o-0"), "demo-other-ad2", "the first domain had no room a moment ago");

    let ids: Vec<String> = site.cloud.instances("demo").await.unwrap().into_iter().map(|i| i.id).collect();
    site.cloud.sweep("other").await.unwrap();
    assert_eq!(clusters(&site), 3, "another cluster's");
    for result in site.cloud.delete_all(&ids, &|_| {}).await {
        result.unwrap();
    }
    site.cloud.sweep("demo").await.unwrap();
    assert_eq!(clusters(&site), 0);
    site.clear().await;
}

/// kilnd launches nodes, too.
#[tokio::test]
async fn an_instance_may_make_one() {
    let site = Site::new().await;
    site.cloud.rights("demo", true).await.unwrap();
    let mut node = site.wanted("control");
    node.labels.insert(labels::ROLE.into(), "control".into());
    site.create(node).await.unwrap();
    let control = site.fake.cloud_of_instance().unwrap();
    control.create(vec![site.in_group("n-0", "compute.hpc", RDMA)]).await.pop().unwrap().unwrap();
    assert_eq!(site.fake.compute_clusters_of("n-0"), ["demo-hpc-ad1"]);
    let ids: Vec<String> = site.cloud.instances("demo").await.unwrap().into_iter().map(|i| i.id).collect();
    site.cloud.delete_all(&ids, &|_| {}).await;
    site.cloud.sweep("demo").await.unwrap();
    site.clear().await;
}

/// What Oracle says of the hosts of bare-metal instances is their place in the network. A new instance may be elsewhere.
#[tokio::test]
async fn nodes_with_rdma_are_behind_switches() {
    let site = Site::new().await;
    let mut new: Vec<NewInstance> =
        ["n-0", "n-1", "n-2"].map(|name| site.in_group(name, "compute.hpc", RDMA)).into();
    new.push(site.in_group("plain", "compute.other", SHAPE));
    for one in new {
        site.create(one).await.unwrap();
    }
    let places = async |site: &Site| -> Vec<String> {
        let all = site.cloud.instances("demo").await.unwrap();
        let found = site.cloud.switches(&all).await.unwrap();
        let name = |id: &String| all.iter().find(|i| i.id == *id).map(|i| i.name.clone()).unwrap();
        let mut told: Vec<String> =
            found.iter().map(|(id, path)| format!("{} {}", name(id), path.join("/"))).collect();
        told.sort();
        told
    };
    assert_eq!(
        places(&site).await,
        [
            "n-0 island-island000001/network-network00000/local-local0000000",
            "n-1 island-island000001/network-network00000/local-local0000000",
            "n-2 island-island000001/network-network00000/local-local0000001",
        ]
    );
    let all = site.cloud.instances("demo").await.unwrap();
    let first = all.iter().find(|i| i.name == "n-0").unwrap();
    site.cloud.delete(&first.id).await.unwrap();
    site.create(site.in_group("n-0", "compute.hpc", RDMA)).await.unwrap();
    assert_eq!(places(&site).await[0], "n-0 island-island000001/network-network00000/local-local0000001");
    let plain: Vec<Instance> = all.into_iter().filter(|i| i.name == "plain").collect();
    assert_eq!(site.cloud.switches(&plain).await.unwrap(), BTreeMap::new());
    let ids: Vec<String> = site.cloud.instances("demo").await.unwrap().into_iter().map(|i| i.id).collect();
    site.cloud.delete_all(&ids, &|_| {}).await;
    site.cloud.sweep("demo").await.unwrap();
    site.clear().await;
}
