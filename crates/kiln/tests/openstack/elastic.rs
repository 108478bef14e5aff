//! Nodes that come and go with the queue: Slurm's hooks, kilnd, and the limited credential.

use crate::control_node::ControlNode;
use crate::lab::{Lab, openstack};

const GROUPS: &str =
    "[compute.burst]\nnodes = \"burst-[0-1]\"\nflavor = \"tiny\"\nelastic = { idle = \"15m\" }\n";

fn servers() -> Vec<String> {
    let rows = openstack(&["server list --tags kiln_cluster=surge"]).remove(0);
    let name = |row: &serde_json::Value| row["Name"].as_str().unwrap().to_string();
    let mut names: Vec<String> = rows.as_array().unwrap().iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn nodes_come_and_go() {
    let lab = Lab::new("surge", GROUPS);
    lab.kiln(&["apply"]);
    assert_eq!(servers(), ["control", "login-0"]);
    let control = ControlNode::of(&lab);
    control.nodes_are(&["burst-0", "burst-1"], "ALLOCATED+CLOUD+POWERING_UP");
    control.power_up("burst-[0-1]");
    control.settle();
    assert_eq!(servers(), ["burst-0", "burst-1", "control", "login-0"]);
    control.nodes_are(&["burst-0", "burst-1"], "IDLE+CLOUD+POWERING_DOWN");
    control.power_down("burst-[0-1]");
    control.settle();
    assert_eq!(servers(), ["control", "login-0"]);
    control.end();
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
