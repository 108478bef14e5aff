//! Names that are taken by what is not the cluster's: Kiln says so, and leaves it alone.

use sha2::{Digest as _, Sha256};

use crate::lab::{Lab, openstack, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n";

#[test]
fn a_name_that_is_taken_is_refused() {
    let lab = Lab::new("clash", GROUPS);
    // Of this project, and the region.
    let token = openstack(&["token issue"]).remove(0);
    let place = format!("{} RegionOne", token["project_id"].as_str().unwrap());
    let credential = &format!("kiln_clash_{}", &hex::encode(Sha256::digest(place))[..8]);
    for (what, make, show, delete) in [
        ("network clash", "network create clash", "network show", "network delete"),
        ("router clash", "router create clash", "router show", "router delete"),
        (
            &format!("application credential {credential}"),
            &format!("application credential create {credential}"),
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
