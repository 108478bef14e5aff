//! Everything a file may say of the cloud beside networks, in one cluster: what exists is used and left, what is the
//! cluster's goes with it.

use serde_json::Value;

use crate::control_node::ControlNode;
use crate::lab::{Lab, openstack, openstack_as, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-1]\"\nflavor = \"tiny\"\n\n\
    [volumes]\nhome = { mode = \"attach\", name = \"their-homes\" }\n";

const OPTIONS: &str = "external_network = \"public\"\nkey_pair = \"their-key\"\navailability_zone = \"nova\"\n\
    root_disk = { size = \"1 GiB\", type = \"fake\" }\nserver_group = \"soft-anti-affinity\"\n\
    security_groups = [\"their-rules\"]\n";

const MAKE: &[&str] = &[
    "keypair create their-key --private-key /dev/null",
    "security group create their-rules",
    "volume create their-homes --size 1 --availability-zone nova",
];
const REMOVE: &[&str] =
    &["keypair delete their-key", "security group delete their-rules", "volume delete their-homes"];

fn shown(lab: &Lab, node: &str) -> Value {
    let tag = format!("server list --tags kiln_cluster={}", lab.cluster);
    let servers = openstack(&[&tag]).remove(0);
    let server = servers.as_array().unwrap().iter().find(|row| row["Name"] == node).unwrap();
    openstack_as("admin", &[&format!("server show {}", server["ID"].as_str().unwrap())]).remove(0)
}

#[test]
fn what_the_file_says_of_the_cloud_is_done() {
    let lab = Lab::new("picky", GROUPS);
    lab.undo_with("demo", REMOVE);
    tell("demo", &MAKE[..1]);
    openstack(&MAKE[1..]);
    lab.edit("external_network = \"public\"\n", OPTIONS);

    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    let [image_a, image_b] = ["image-a", "image-b"]
        .map(|name| openstack(&[&format!("image show {name}")])[0]["id"].as_str().unwrap().to_string());

    let node = shown(&lab, "standard-0");
    assert_eq!(node["key_name"], "their-key");
    assert_eq!(node["OS-EXT-AZ:availability_zone"], "nova");
    let groups: Vec<&str> =
        node["security_groups"].as_array().unwrap().iter().filter_map(|g| g["name"].as_str()).collect();
    assert!(groups.contains(&"their-rules") && groups.contains(&"picky-cluster"), "{groups:?}");
    let root = root_disk(&node);
    assert_eq!((&root["size"], &root["type"]), (&Value::from(1), &Value::from("fake")));
    assert_eq!(root["volume_image_metadata"]["image_id"], image_a.as_str());

    let group = openstack(&["server group show kiln:picky:compute.standard"]).remove(0);
    assert_eq!(group["policy"], "soft-anti-affinity");
    assert!(group.to_string().contains(node["id"].as_str().unwrap()), "{group}");

    // Theirs hangs on control, between those that are Kiln's.
    let homes = openstack(&["volume show their-homes"]).remove(0);
    assert_eq!(homes["attachments"][0]["server_id"], shown(&lab, "control")["id"]);

    // A root disk that is a volume is rebuilt in place, as Slurm asks for it.
    lab.edit("prebuilt = \"image-a\"", "prebuilt = \"image-b\"");
    lab.kiln(&["apply", "--yes"]);
    let control = ControlNode::of(&lab);
    control.reboot("standard-0");
    control.settle();
    control.end();
    let rebuilt = shown(&lab, "standard-0");
    assert_eq!(rebuilt["id"], node["id"]);
    assert_eq!(root_disk(&rebuilt)["volume_image_metadata"]["image_id"], image_b.as_str());

    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    let kept = openstack(&["keypair show their-key", "security group show their-rules"]);
    assert_eq!([&kept[0]["name"], &kept[1]["name"]], ["their-key", "their-rules"]);
    assert_eq!(openstack(&["volume show their-homes"])[0]["status"], "available");
    tell("demo", REMOVE);
}

fn root_disk(server: &Value) -> Value {
    let volumes = server["volumes_attached"].as_array().unwrap();
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    openstack(&[&format!("volume show {}", volumes[0]["id"].as_str().unwrap())]).remove(0)
}
