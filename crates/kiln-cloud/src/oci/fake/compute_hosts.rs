//! Compute hosts: where bare-metal instances with RDMA are. Two share a local block, four a network block.

use serde_json::{Value, json};

use super::answer::Answer;
use super::compute::shapes;
use super::compute_clusters::in_items;
use super::route::Request;
use super::world::{Resource, World};

pub fn list(world: &World, request: &Request<'_>) -> Answer {
    let rdma: Vec<Value> =
        shapes().into_iter().filter(|shape| shape["rdmaPorts"].as_u64() > Some(0)).collect();
    let has_rdma = |r: &&Resource| rdma.iter().any(|shape| shape["shape"] == r.value["shape"]);
    // Those that are gone keep their places, so that a new one is elsewhere.
    let all = world.list("instances");
    let hosts = all.iter().filter(has_rdma).enumerate().filter(|(_, resource)| resource.is_there());
    let host = |(at, resource): (usize, &Resource)| {
        json!({
            "id": format!("ocid1.computehost.oc1.fake.host{at:04}"),
            "instanceId": resource.id(),
            "compartmentId": resource.value["compartmentId"],
            "availabilityDomain": resource.value["availabilityDomain"],
            "faultDomain": resource.value["faultDomain"],
            "shape": resource.value["shape"],
            "health": "HEALTHY",
            "lifecycleState": "OCCUPIED",
            "hasImpactedComponents": false,
            "timeCreated": resource.value["timeCreated"],
            "timeUpdated": resource.value["timeCreated"],
            "hpcIslandId": "ocid1.hpcisland.oc1.fake.aaaaaaaaisland000001",
            "networkBlockId": format!("ocid1.networkblock.oc1.fake.aaaaaaaanetwork{:05}", at / 4),
            "localBlockId": format!("ocid1.localblock.oc1.fake.aaaaaaaalocal{:07}", at / 2),
        })
    };
    let hosts: Vec<Value> = hosts.map(host).collect();
    in_items(world.cut(&hosts, request))
}
