//! With trouble between Kiln and the services, all ends right: nothing twice, nothing left.

use crate::lab::{Lab, openstack};
use crate::proxy::Proxy;

const GROUPS: &str =
    "[compute.standard]\nnodes = \"standard-[0-5]\"\nflavor = \"tiny\"\nimage_update = \"apply\"\n";

#[test]
fn all_ends_right_in_spite_of_trouble() {
    let mut lab = Lab::new("trouble", GROUPS);
    let proxy = Proxy::start();
    lab.write_clouds(&proxy.clouds());

    lab.kiln(&["apply"]);
    let mut expected: Vec<String> = (0..6).map(|n| format!("standard-{n}")).collect();
    expected.extend(["control", "login-0"].map(String::from));
    expected.sort();
    assert_eq!(names("server list --tags kiln_cluster=trouble"), expected, "each once");
    let ports: Vec<String> =
        names("port list --long").into_iter().filter(|name| expected.contains(name)).collect();
    assert_eq!(ports, expected, "each once");
    assert_eq!(names("floating ip list").len(), 1);
    assert_eq!(names("volume list").len(), 4);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));

    lab.edit("image-a", "image-b");
    lab.kiln(&["apply", "--yes"]);
    let images = openstack(&["server list --long --tags kiln_cluster=trouble"]).remove(0);
    let all_moved = images.as_array().unwrap().iter().all(|row| row["Image Name"] == "image-b");
    assert!(all_moved, "{images}");

    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    assert!(proxy.troubled() > 40, "only {} requests had trouble", proxy.troubled());
}

fn names(list: &str) -> Vec<String> {
    let rows = openstack(&[list]).remove(0);
    let mut names: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["Name"].as_str().unwrap_or_default().to_string())
        .collect();
    names.sort();
    names
}
