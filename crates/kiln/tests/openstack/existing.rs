//! A network that exists already: used, not owned.

use serde_json::Value;

use crate::lab::{Lab, openstack, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-1]\"\nflavor = \"tiny\"\n";

const MAKE: &[&str] = &[
    "network create theirs",
    "subnet create --network theirs --subnet-range 10.42.0.0/24 theirs-a",
    "subnet create --network theirs --subnet-range 10.43.0.0/24 theirs-b",
    "router create theirs --external-gateway public",
];
const REMOVE: &[&str] =
    &["router remove subnet theirs theirs-b", "router delete theirs", "network delete theirs"];

#[test]
fn a_network_that_exists_is_used_and_left() {
    let lab = Lab::new("guest", GROUPS);
    // What Kiln made before the file named another network belongs to the cluster all the same.
    lab.kiln(&["apply", "--yes"]);
    lab.kiln_killed_at(&["destroy", "--yes"], "security group guest-cluster");
    lab.undo_with("demo", REMOVE);
    openstack(MAKE);
    tell("demo", &["router add subnet theirs theirs-b"]);
    lab.edit("subnet = \"10.41.0.0/24\"", "network = \"theirs\"");
    let said = lab.refused(&["plan"]);
    assert!(said.contains("network theirs has the IPv4 subnets 10.42.0.0/24 and 10.43.0.0/24"), "{said}");
    assert!(said.contains("hint: say which one to use: `subnet` in [cloud]"), "{said}");
    lab.edit("network = \"theirs\"", "network = \"theirs\"\nsubnet = \"10.43.0.0/24\"");

    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    for host in lab.hosts() {
        assert!(host["address"].as_str().unwrap().starts_with("10.43.0."), "{host}");
    }
    let floating = openstack(&["floating ip list"]).remove(0);
    let inside = |row: &&Value| row["Fixed IP Address"].as_str().is_some_and(|a| a.starts_with("10.43.0."));
    assert_eq!(floating.as_array().unwrap().iter().filter(inside).count(), 1, "{floating}");

    // Others on that network are let in to nothing but SSH.
    let group = openstack(&["security group show guest-cluster"]).remove(0);
    let ingress = group["rules"].as_array().unwrap().iter().filter(|r| r["direction"] == "ingress");
    for rule in ingress.filter(|r| r["protocol"] != "icmp") {
        let everything = rule["port_range_min"] == Value::Null;
        let from = if everything { &rule["remote_group_id"] } else { &rule["remote_ip_prefix"] };
        let expected = if everything { &group["id"] } else { &Value::from("10.43.0.0/24") };
        assert_eq!(from, expected, "{rule}");
        assert!(everything || rule["port_range_min"] == 22, "{rule}");
    }

    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    assert_eq!(openstack(&["network show theirs"])[0]["name"], "theirs");
    tell("demo", REMOVE);
}

/// A run was cut off between the network and its subnet.
#[test]
fn a_network_without_a_subnet_is_completed_or_deleted() {
    let lab = Lab::new("bare", GROUPS);
    let make = "network create bare --description kiln_cluster=bare";
    openstack(&[make]);
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());

    openstack(&[make]);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("~ network bare: create its missing subnet"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
