//! A cluster's life: made, read back, grown, shrunk, moved to another image, destroyed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::control_node::ControlNode;
use crate::lab::{Lab, openstack, openstack_as};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-6]\"\nflavor = \"tiny\"\n\
    override.standard-3.address = \"10.41.0.203\"\n\n\
    [compute.quick]\nnodes = \"quick-[0-1]\"\nflavor = \"tiny\"\nimage_update = \"apply\"\n";

/// Name and id of every server, and the id of its image.
fn servers() -> BTreeMap<String, (String, String)> {
    let rows = openstack(&["server list --long --tags kiln_cluster=life"]).remove(0);
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_string();
    let rows = rows.as_array().unwrap();
    rows.iter().map(|row| (text(row, "Name"), (text(row, "ID"), text(row, "Image ID")))).collect()
}

fn pool(pool: &Value) -> String {
    format!("{}-{}", pool["start"].as_str().unwrap(), pool["end"].as_str().unwrap())
}

#[test]
fn a_clusters_life() {
    let lab = Lab::new("life", GROUPS);
    let images = openstack(&["image show image-a", "image show image-b"]);
    let [a, b] = [&images[0], &images[1]].map(|image| image["id"].as_str().unwrap().to_string());

    lab.kiln(&["apply"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    // Neutron chooses addresses by chance, but none that the file gives to a node.
    let subnet = openstack(&["subnet show life"]).remove(0);
    let mut pools: Vec<String> = subnet["allocation_pools"].as_array().unwrap().iter().map(pool).collect();
    pools.sort();
    assert_eq!(pools, ["10.41.0.2-10.41.0.202", "10.41.0.204-10.41.0.254"]);
    let made = servers();
    assert_eq!(made.len(), 11);
    assert!(made.values().all(|(_, image)| *image == a));
    read_back(&lab);

    // Grown and shrunk.
    lab.edit("standard-[0-6]", "standard-[0-4,10-11]");
    let plan = lab.kiln(&["plan"]);
    // Nothing boots here, so Slurm cannot be asked whether jobs run.
    assert!(
        plan.contains("= compute.standard: standard-[5-6] (2 nodes) stays until Slurm can be asked"),
        "{plan}"
    );
    assert!(plan.contains("+ compute.standard: create standard-[10-11] from image-a (2 nodes)"), "{plan}");
    let output = lab.try_kiln(&["apply", "--yes"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(servers().len(), 13);
    let plan = lab.kiln(&["apply", "--now", "--dry-run"]);
    assert!(
        plan.contains("- compute.standard: delete standard-[5-6] (2 nodes) with the jobs on them"),
        "{plan}"
    );
    lab.kiln(&["apply", "--yes", "--now"]);
    let resized = servers();
    assert_eq!(resized.len(), 11);
    assert!(!resized.contains_key("standard-5") && resized.contains_key("standard-11"));
    assert_eq!(resized["standard-3"], made["standard-3"], "the others are left alone");

    // Another image: at once for some, left to Slurm for others.
    lab.edit("prebuilt = \"image-a\"", "prebuilt = \"image-b\"");
    let plan = lab.kiln(&["plan"]);
    assert!(
        plan.contains("~ compute.quick: rebuild quick-[0-1] in place, image-a -> image-b (2 nodes)"),
        "{plan}"
    );
    assert!(plan.contains("= compute.standard: image change left to Slurm (7 nodes)"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    let moved = servers();
    for (name, (id, image)) in &moved {
        assert_eq!(*id, resized[name].0, "{name} is rebuilt in place");
        let expected = if name.starts_with("standard-") { &a } else { &b };
        assert_eq!(image, expected, "{name}");
    }

    // Whose business the image is can change without anything happening to a node.
    lab.edit("image_update = \"apply\"", "image_update = \"slurm\"");
    let plan = lab.kiln(&["plan"]);
    // Notes, which begin with `!`, may tell of `kiln rebuild`.
    let mut actions = plan.lines().filter(|line| !line.trim_start().starts_with('!'));
    assert!(
        !actions.any(|line| ["rebuild", "create", "delete"].iter().any(|word| line.contains(word))),
        "{plan}"
    );
    lab.kiln(&["apply"]);
    assert_eq!(servers(), moved);

    // Slurm calls the reboot hook, kilnd does the rest.
    let control = ControlNode::of(&lab);
    control.reboot("standard-[0-2]");
    control.settle();
    let rolled = servers();
    for n in 0..3 {
        let name = format!("standard-{n}");
        assert_eq!(rolled[&name], (moved[&name].0.clone(), b.clone()), "{name}");
    }
    assert_eq!(rolled["standard-4"], moved["standard-4"]);
    // With the image it should have, a reboot is a reboot.
    control.reboot("standard-0");
    control.settle();
    assert_eq!(control.outcomes("standard-0").last().map(String::as_str), Some("rebooted"));
    control.end();

    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// What Kiln wrote, as others see it.
fn read_back(lab: &Lab) {
    let made = servers();
    // User data is for administrators' eyes only.
    let show = ["standard-3", "control"].map(|name| format!("server show {}", made[name].0));
    let shown = openstack_as("admin", &show.each_ref().map(String::as_str));
    let (compute, control) = (&shown[0], &shown[1]);
    let properties = &compute["properties"];
    assert_eq!(properties["kiln_cluster"], lab.cluster);
    assert_eq!(properties["kiln_node"], "standard-3");
    assert_eq!(properties["kiln_role"], "compute");
    assert_eq!(properties["kiln_group"], "compute.standard");
    assert_eq!(compute["addresses"]["life"][0], "10.41.0.203");
    assert!(compute["key_name"].as_str().unwrap().starts_with("kiln_life_"));
    assert_eq!(control["volumes_attached"].as_array().map(Vec::len), Some(4));

    let user_data = compute["user_data"].as_str().or(compute["OS-EXT-SRV-ATTR:user_data"].as_str()).unwrap();
    let user_data = String::from_utf8(STANDARD.decode(user_data).unwrap()).unwrap();
    let json: Value = serde_json::from_str(user_data.strip_prefix("#cloud-config\n").unwrap()).unwrap();
    assert_eq!(json["kiln"]["node"], "standard-3");
    let address = control["addresses"]["life"][0].as_str().unwrap();
    assert_eq!(json["kiln"]["share"]["nfs"], format!("{address}:/srv/kiln/share"));

    // Login nodes are reached from outside.
    let login = lab.hosts().into_iter().find(|h| h["name"] == "login-0").unwrap();
    let floating = openstack(&["floating ip list"]).remove(0);
    let is_its = |row: &&Value| row["Fixed IP Address"] == login["address"];
    let own: Vec<&Value> = floating.as_array().unwrap().iter().filter(is_its).collect();
    assert_eq!(own.len(), 1, "{floating}");
    assert_eq!(own[0]["Floating IP Address"], login["public_address"], "{floating} {login}");
}
