//! `kiln image build`, from the server to the image. The hypervisor is fake, so a booted system stands in for the
//! server that the recipe works on. The image itself is what the fake hypervisor makes of it: its content is not
//! looked at here.

use serde_json::Value;

use crate::lab::{Lab, openstack, tell};
use crate::stand_in::{StandIn, StoodIn};

const IMAGES: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n\n\
    [image.tools]\nsource = \"default\"\nroles = [\"compute\"]\npackages = [\"hello\"]\n\
    commands = [\"hello >/root/greeting\", \"test -s /root/greeting\"]\n\
    build = { flavor = \"tiny\", network = \"yard\", disk = \"2 GiB\", timeout = \"20m\" }\n\
    [image.tools.properties]\nfirmware = \"uefi\"\nmachine_type = \"q35\"\ndisk_bus = \"scsi\"\nadmin_user = \"debian\"\n\
    visibility = \"shared\"\nmin_disk = \"3 GiB\"\nother = { hw_rng_model = \"virtio\" }\n\n\
    [image.broken]\nsource = \"default\"\nroles = [\"compute\"]\n\
    packages = [\"no-such-package\"]\n";

/// A network of the site's, which one of the images is built in.
const MAKE: &[&str] = &[
    "network create yard",
    "subnet create --network yard --subnet-range 10.44.0.0/24 yard",
    "router create yard --external-gateway public",
];
const REMOVE: &[&str] = &["router remove subnet yard yard", "router delete yard", "network delete yard"];

#[test]
fn an_image_is_built() {
    let lab = Lab::new("forge", IMAGES);
    lab.undo_with("demo", REMOVE);
    openstack(MAKE);
    tell("demo", &["router add subnet yard yard"]);
    for row in kilns_images() {
        lab.kiln(&["image", "delete", "--yes", "--force", row["Name"].as_str().unwrap()]);
    }
    let stand_in = StandIn::start("forge");
    let built = lab.try_kiln(&["image", "build", "tools"]);
    let broken = lab.try_kiln(&["image", "build", "broken"]);
    let stood_in = stand_in.end();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(built.status.success(), "{}{}", text(&built.stdout), text(&built.stderr));
    let said = text(&built.stderr);
    let times = said.lines().find_map(|line| Some(line.split_once("built in ")?.1)).expect("times");
    assert!(times.contains(", image ") && times.contains(", properties "), "{times}");
    let flavors: Vec<&str> = stood_in.iter().map(|one| one.server.flavor.as_str()).collect();
    assert_eq!(
        flavors,
        ["tiny", "small"],
        "one server for each build, like the control node unless the file says otherwise"
    );

    let in_yard = |one: &StoodIn| one.server.address.is_some_and(|a| a.to_string().starts_with("10.44.0."));
    assert_eq!(stood_in.iter().map(in_yard).collect::<Vec<_>>(), [true, false]);
    assert_eq!(stood_in.iter().map(|one| one.disk_gib).collect::<Vec<_>>(), [Some(2), None]);
    assert_eq!(openstack(&["network show yard"])[0]["name"], "yard", "it is not Kiln's");
    tell("demo", REMOVE);

    // As others see it.
    let images = kilns_images();
    assert_eq!(images.len(), 1, "{images:?}");
    let name = images[0]["Name"].as_str().unwrap();
    assert!(name.starts_with("tools-"), "{name}");
    let shown = openstack(&[&format!("image show {name}")]).remove(0);
    assert_eq!(shown["status"], "active");
    let properties = &shown["properties"];
    assert_eq!(properties["kiln_image"], "tools");
    assert_eq!([&shown["visibility"], &shown["min_disk"]], [&Value::from("shared"), &Value::from(3)]);
    let wanted = [
        ("hw_firmware_type", "uefi"),
        ("hw_machine_type", "q35"),
        ("hw_disk_bus", "scsi"),
        ("os_admin_user", "debian"),
        ("hw_rng_model", "virtio"),
    ];
    for (name, value) in wanted {
        assert_eq!(properties[name], value, "{name}");
    }
    let manifest: Value = serde_json::from_str(properties["kiln_manifest"].as_str().unwrap()).unwrap();
    assert_eq!(properties["kiln_recipe"], manifest["recipe"]);
    assert_eq!(manifest["source"], "image-a");
    // Listed by the system that the recipe has worked on.
    let packages = manifest["packages"].as_array().unwrap();
    for name in ["hello", "nfs-common", "systemd"] {
        assert!(packages.iter().any(|package| package["name"] == name), "no {name}");
    }
    // The recipe is known now.
    assert!(lab.kiln(&["image", "build", "tools"]).contains(name));

    assert!(!broken.status.success());
    let said = text(&broken.stderr);
    assert!(said.contains("Unable to locate package no-such-package"), "{said}");

    lab.kiln(&["image", "delete", "--yes", name]);
    // Server, port, floating IP, network, router, security group: gone after both.
    let left: Vec<String> = lab.leftovers().into_iter().filter(|row| !row.starts_with("keypair")).collect();
    assert_eq!(left, Vec::<String>::new());
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// Those that were built, by the official client.
fn kilns_images() -> Vec<Value> {
    let rows = openstack(&["image list"]).remove(0);
    let ours = |row: &&Value| {
        let name = row["Name"].as_str().unwrap_or_default();
        name.starts_with("tools-") || name.starts_with("broken-")
    };
    rows.as_array().unwrap().iter().filter(ours).cloned().collect()
}
