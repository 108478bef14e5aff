//! Nodes that come and go keep their addresses while they are away, whoever else takes addresses in their network.

use std::net::Ipv4Addr;

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::control_node::{ControlNode, fleet_file};
use crate::lab::{Lab, client, openstack, tell};

const GROUPS: &str =
    "[compute.burst]\nnodes = \"burst-[0-1]\"\nflavor = \"tiny\"\nelastic = { idle = \"15m\" }\n";

/// What kilnd is told.
fn kept(lab: &Lab) -> [String; 2] {
    let file: Value = serde_json::from_str(&fleet_file(&Runtime::new().unwrap(), lab)).unwrap();
    ["burst-0", "burst-1"].map(|node| file["nodes"][node]["address"].as_str().unwrap().to_string())
}

/// Of all ports in the network.
fn addresses(network: &str) -> Vec<String> {
    let rows = openstack(&[&format!("port list --network {network}")]).remove(0);
    let fixed = rows.as_array().unwrap().iter().flat_map(|row| row["Fixed IP Addresses"].as_array().unwrap());
    fixed.map(|fixed| fixed["ip_address"].as_str().unwrap().to_string()).collect()
}

fn server_address(name: &str, network: &str) -> String {
    let rows = openstack(&[&format!("server list --name ^{name}$")]).remove(0);
    rows[0]["Networks"][network][0].as_str().unwrap().to_string()
}

/// What the others have, also after a run that was cut off.
fn clear() {
    let rows = openstack(&["port list"]).remove(0);
    let theirs =
        rows.as_array().unwrap().iter().filter(|row| row["Name"].as_str().unwrap().starts_with("theirs"));
    let deletions: Vec<String> =
        theirs.map(|row| format!("port delete {}", row["ID"].as_str().unwrap())).collect();
    tell("demo", &deletions.iter().map(String::as_str).collect::<Vec<_>>());
}

fn remove_network(name: &str) {
    let rows = openstack(&[&format!("network list --name {name}")]).remove(0);
    if !rows.as_array().unwrap().is_empty() {
        tell("demo", &[&format!("network delete {name}")]);
    }
}

#[test]
fn neutron_gives_no_kept_address_away() {
    clear();
    let lab = Lab::new("keeper", GROUPS);
    lab.edit("10.41.0.0/24", "10.41.0.0/27");
    lab.kiln(&["apply"]);
    let pools = openstack(&["subnet show keeper"])[0]["allocation_pools"].clone();
    assert_eq!(pools, serde_json::json!([{ "start": "10.41.0.2", "end": "10.41.0.17" }]));
    let kept = kept(&lab);

    // Others take all that Neutron has to give.
    let taken = addresses("keeper");
    let free = (2..=17).map(|n| Ipv4Addr::new(10, 41, 0, n).to_string());
    let free = free.filter(|address| !taken.contains(address)).count();
    let ports: Vec<String> = (0..free).map(|n| format!("port create --network keeper theirs-{n}")).collect();
    let undo: Vec<String> = (0..free).map(|n| format!("port delete theirs-{n}")).collect();
    lab.undo_with("demo", &undo.iter().map(String::as_str).collect::<Vec<_>>());
    openstack(&ports.iter().map(String::as_str).collect::<Vec<_>>());
    let one_more = client()
        .args(["port", "create", "--network", "keeper", "theirs-too"])
        .env("OS_CLOUD", "demo")
        .output()
        .unwrap();
    assert!(!one_more.status.success(), "there was another address");
    let taken = addresses("keeper");
    assert!(kept.iter().all(|address| !taken.contains(address)), "{kept:?} {taken:?}");
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));

    // The nodes still get theirs.
    let control = ControlNode::of(&lab);
    control.nodes_are(&["burst-0", "burst-1"], "ALLOCATED+CLOUD+POWERING_UP");
    control.power_up("burst-[0-1]");
    control.settle();
    for (node, address) in ["burst-0", "burst-1"].iter().zip(&kept) {
        assert_eq!(server_address(node, "keeper"), *address, "{node}");
    }
    control.end();
    clear();
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// Where the network is somebody else's, nothing holds an address for a node that is away.
#[test]
fn a_kept_address_that_others_took_is_told() {
    clear();
    let lab = Lab::new("guest", GROUPS);
    remove_network("lent");
    lab.undo_with("demo", &["port delete theirs", "network delete lent"]);
    openstack(&[
        "network create lent",
        "subnet create --network lent --subnet-range 10.41.0.0/24 \
         --allocation-pool start=10.41.0.100,end=10.41.0.199 lent",
    ]);
    lab.edit(
        "subnet = \"10.41.0.0/24\"\nexternal_network = \"public\"",
        "network = \"lent\"\nsubnet = \"10.41.0.0/24\"",
    );
    lab.kiln(&["apply"]);
    let before = kept(&lab);
    let in_pool = |address: &String| (100..=199).contains(&address.parse::<Ipv4Addr>().unwrap().octets()[3]);
    assert!(before.iter().all(in_pool), "{before:?}");

    let control = ControlNode::of(&lab);
    openstack(&[&format!("port create --network lent --fixed-ip ip-address={} theirs", before[0])]);
    control.nodes_are(&["burst-0", "burst-1"], "ALLOCATED+CLOUD+POWERING_UP");
    control.power_up("burst-[0-1]");
    control.settle();
    // Only the one whose address it is stays away, and Slurm hears why.
    let outcomes = control.outcomes("burst-0");
    let said = format!("failed: burst-0: its address {} is taken by port theirs (", before[0]);
    assert!(outcomes.last().is_some_and(|last| last.starts_with(&said)), "{outcomes:?}");
    control.end();
    assert_eq!(server_address("burst-1", "lent"), before[1]);
    let plan = lab.kiln(&["plan"]);
    let said = format!("! burst-0: addresses are in use by others ({} by port theirs (", before[0]);
    assert!(plan.contains(&said), "{plan}");
    let after = kept(&lab);
    assert_ne!(after[0], before[0]);
    assert!(in_pool(&after[0]), "{after:?}");

    // One that the file names is not chosen anew.
    lab.edit("elastic = { idle", &format!("override.burst-0.address = \"{}\"\nelastic = {{ idle", before[0]));
    let refused = lab.refused(&["plan"]);
    let said =
        format!("error: burst-0 should have the address {}, which is taken by port theirs (", before[0]);
    assert!(refused.starts_with(&said), "{refused}");
    lab.kiln(&["destroy", "--yes"]);
    clear();
    remove_network("lent");
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
