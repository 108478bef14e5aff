//! Two servers that are one node: as when Nova made one twice, because the answer to the first request got lost.

use std::time::Duration;

use crate::lab::{Lab, openstack};

#[test]
fn a_broken_twin_goes_and_the_node_stays() {
    let lab = Lab::new("twins", "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n");
    lab.kiln(&["apply"]);
    let control = openstack(&["server show control"])[0]["id"].as_str().unwrap().to_string();
    let twin = openstack(&["server create control --image image-a --flavor tiny --network twins \
        --tag kiln_cluster=twins --property kiln_cluster=twins --property kiln_node=control \
        --property kiln_role=control --property kiln_group=control \
        --property fake:spawn_error=port-in-use"]);
    let twin = format!("server show {}", twin[0]["id"].as_str().unwrap());
    while openstack(&[&twin])[0]["status"] != "ERROR" {
        std::thread::sleep(Duration::from_secs(1));
    }
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("- control: delete control (1 node), broken: "), "{plan}");
    assert!(!plan.contains("create"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    let left = openstack(&["server list --name ^control$"]).remove(0);
    assert_eq!(left[0]["ID"], control.as_str(), "{left}");
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
