//! Names that are taken by what is not the cluster's: Kiln says so, and leaves it alone.

use crate::lab::{Lab, openstack, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n";

#[test]
fn a_name_that_is_taken_is_refused() {
    let lab = Lab::new("clash", GROUPS);
    for (what, make, show, delete) in [
        ("network clash", "network create clash", "network show", "network delete"),
        ("router clash", "router create clash", "router show", "router delete"),
        (
            "application credential kiln_clash",
            "application credential create kiln_clash",
            "application credential show",
            "application credential delete",
        ),
    ] {
        lab.undo_with("demo", &[&format!("{delete} {}", what.rsplit(' ').next().unwrap())]);
        let theirs = id(&openstack(&[make])[0]);
        let said = lab.refused(&["apply", "--yes"]);
        assert!(said.contains(&format!("{what} exists already and is not this cluster's")), "{said}");
        assert!(said.contains("hint: rename the cluster, or remove the other one"), "{said}");
        let servers = openstack(&["server list --tags kiln_cluster=clash"]).remove(0);
        assert_eq!(servers.as_array().map(Vec::len), Some(0), "{what}: told before servers are made");
        lab.kiln(&["destroy", "--yes"]);
        assert_eq!(id(&openstack(&[&format!("{show} {theirs}")])[0]), theirs, "{what}");
        tell("demo", &[&format!("{delete} {theirs}")]);
    }
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// The client writes it this way and that.
fn id(shown: &serde_json::Value) -> String {
    shown["id"].as_str().or(shown["ID"].as_str()).unwrap().to_string()
}
