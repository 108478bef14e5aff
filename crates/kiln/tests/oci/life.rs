//! A cluster's life: planned, made, grown, shrunk, moved to another image, destroyed.

use std::collections::BTreeMap;

use kiln_cloud::oci::fake::Fault;
use serde_json::Value;

use crate::lab::Lab;

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-2]\"\nflavor = \"VM.Standard.E5.Flex.2.24\"\n\n\
    [compute.quick]\nnodes = \"quick-0\"\nflavor = \"VM.Standard.E5.Flex.1.16\"\nimage_update = \"apply\"\n";

/// Instance and image of every node.
fn nodes(lab: &Lab) -> BTreeMap<String, (String, String)> {
    let text = |host: &Value, key: &str| host[key].as_str().unwrap_or_default().to_string();
    let hosts = lab.hosts();
    hosts.iter().map(|h| (text(h, "name"), (text(h, "instance_id"), text(h, "image_id")))).collect()
}

#[test]
fn a_clusters_life() {
    let lab = Lab::new("life", GROUPS);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("+ compute.standard: create standard-[0-2] from image-a (3 nodes)"), "{plan}");
    assert_eq!(lab.fake.left(), [""; 0], "a plan makes nothing");

    lab.kiln(&["apply"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    let made = nodes(&lab);
    assert_eq!(made.len(), 6);
    let login = lab.hosts().into_iter().find(|host| host["name"] == "login-0").unwrap();
    assert!(login["public_address"].is_string(), "{login}");

    let rules = |lab: &Lab| {
        let groups = lab.behind(async |cloud| cloud.security_groups("life").await);
        let login = groups.into_iter().find(|group| group.name == "life-login").unwrap();
        login.rules.iter().map(|rule| format!("{:?} {:?}", rule.from, rule.tcp_port)).collect::<Vec<_>>()
    };
    assert_eq!(rules(&lab), ["Net(0.0.0.0/0) Some(22)"]);
    lab.edit("subnet = \"10.31.0.0/24\"", "subnet = \"10.31.0.0/24\"\nssh_from = [\"192.0.2.0/24\"]");
    lab.kiln(&["apply", "--yes"]);
    assert_eq!(rules(&lab), ["Net(192.0.2.0/24) Some(22)"], "the old rule goes");

    lab.edit("standard-[0-2]", "standard-[0-1,5]");
    lab.kiln(&["apply", "--yes", "--now"]);
    let resized = nodes(&lab);
    assert!(!resized.contains_key("standard-2") && resized.contains_key("standard-5"));
    assert_eq!(resized["standard-1"], made["standard-1"], "the others are left alone");

    lab.edit("prebuilt = \"image-a\"", "prebuilt = \"image-b\"");
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("~ compute.quick: rebuild quick-0 in place, image-a -> image-b"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    let moved = nodes(&lab);
    assert_eq!(moved["quick-0"].0, resized["quick-0"].0, "in place");
    assert_ne!(moved["quick-0"].1, resized["quick-0"].1);

    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

/// A run that met faults of every kind, and one after a run that was refused in the middle.
#[test]
fn faults_on_the_way() {
    let lab = Lab::new("faults", GROUPS);
    let launch = "POST /20160918/instances";
    for fault in [
        Fault::throttle("GET /20160918/shapes"),
        Fault::cut("POST /20160918/vcns"),
        Fault::lose_answer("POST /20160918/volumes"),
        Fault::throttle(launch),
        Fault::lose_answer(launch),
        Fault::refuse(launch, 400, "InvalidParameter", "not today"),
    ] {
        lab.fake.order(fault);
    }
    let said = lab.refused(&["apply", "--yes"]);
    assert!(said.contains("not today"), "{said}");
    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    for (name, _) in nodes(&lab) {
        assert_eq!(lab.fake.count(&name), 1, "{name}");
    }
    lab.fake.order(Fault::throttle("DELETE /20160918/instances"));
    lab.fake.order(Fault::refuse("DELETE /20160918/subnets", 409, "Conflict", "The subnet is in use"));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

/// Home directories and share are on File Storage: kept when the volumes are, and exported again to the cluster that comes back.
#[test]
fn homes_on_file_storage() {
    let lab = Lab::new("files", &format!("{GROUPS}\n[volumes]\nhome = {{ mode = \"file_storage\" }}\n"));
    let plan = lab.kiln(&["plan"]);
    assert!(
        plan.contains("+ file system files-home\n") && plan.contains("+ file system files-share\n"),
        "{plan}"
    );
    lab.fake.order(Fault::refuse("POST /20171215/exports", 400, "InvalidParameter", "not today"));
    let said = lab.refused(&["apply"]);
    assert!(said.contains("not today"), "{said}");
    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    let control = lab.hosts().into_iter().find(|host| host["name"] == "control").unwrap();
    let address = control["address"].as_str().unwrap();
    let access = |squash: &str| format!("{squash} READ_WRITE");
    assert_eq!(
        lab.fake.access_of("/files-home"),
        [format!("{} NONE", access(address)), format!("{} ROOT", access("10.31.0.0/24"))]
    );
    // Nodes find the share there, and not on the control node.
    let behind = |lab: &Lab| lab.behind(async |cloud| cloud.volumes("files").await);
    let volumes = behind(&lab);
    let share = volumes.iter().find(|volume| volume.name == "files-share").unwrap();
    let at = share.served.clone().unwrap().at.unwrap();
    assert!(at.ends_with(":/files-share") && !at.starts_with(&format!("{address}:")), "{at}");
    assert_eq!(share.labels["kiln_control_address"], address);
    let home = volumes.iter().find(|volume| volume.name == "files-home").unwrap().id.clone();

    lab.edit("home = { mode = \"file_storage\" }", "home = \"manage\"");
    let said = lab.refused(&["plan"]);
    assert!(
        said.contains("files-home is a file system of File Storage, and the file has it on a volume"),
        "{said}"
    );
    lab.edit("home = \"manage\"", "home = \"file_storage\"");

    lab.kiln(&["destroy", "--yes", "--keep-volumes"]);
    let kept: Vec<String> = lab.fake.left().into_iter().filter(|what| !what.starts_with("volumes")).collect();
    assert_eq!(kept, ["fileSystems files-home"], "what exports it goes with the network");
    lab.kiln(&["apply"]);
    let volumes = behind(&lab);
    let again = volumes.iter().find(|volume| volume.name == "files-home").unwrap();
    assert_eq!(again.id, home);
    assert!(again.served.clone().unwrap().at.is_some(), "{again:?}");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

/// A disk of the site's own becomes an image that a cluster runs, and that outlives it.
#[test]
fn an_uploaded_disk_runs() {
    let lab = Lab::new("disk", GROUPS);
    let disk = lab.path("site.qcow2");
    std::fs::write(&disk, [b"QFI\xfb".as_slice(), &[7; 9000]].concat()).unwrap();
    let disk = disk.to_string_lossy();
    let said = lab.kiln(&["image", "upload", &disk]);
    assert!(said.contains("site  ocid1.image."), "{said}");
    assert_eq!(lab.kiln(&["image", "upload", &disk]).trim(), said.trim(), "uploaded once");
    lab.edit("prebuilt = \"image-a\"", "prebuilt = \"site\"");
    lab.kiln(&["apply"]);
    let nodes = nodes(&lab);
    assert!(nodes.values().all(|(_, image)| said.contains(image.as_str())), "{nodes:?}");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), ["images site"]);
}

/// The control node is off; it comes back as it was, through throttling and a broken service.
#[test]
fn control_is_stopped_and_started_again() {
    let lab = Lab::new("off", GROUPS);
    lab.kiln(&["apply"]);
    let before = nodes(&lab);
    let id = before["control"].0.clone();
    let volumes = |lab: &Lab| lab.behind(async |cloud| Ok(cloud.instance(&id).await?.volumes));
    let held = volumes(&lab);
    assert!(!held.is_empty());
    lab.behind(async |cloud| cloud.stop(&id, true).await);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("~ control: start control"), "{plan}");
    let start = format!("POST /20160918/instances/{id}?action=START");
    for fault in [
        Fault::throttle(&start),
        Fault::refuse(&start, 500, "InternalServerError", "Internal error"),
        Fault::lose_answer(&start),
    ] {
        lab.fake.order(fault);
    }
    lab.kiln(&["apply", "--yes"]);
    assert_eq!(lab.fake.faults_left(), [""; 0]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    assert_eq!((nodes(&lab), volumes(&lab)), (before, held));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

/// One availability domain has no room, another says so only later: the nodes are in the third.
#[test]
fn a_domain_without_room() {
    let lab = Lab::new("room", GROUPS);
    lab.fake.fill("Fake:PHX-AD-1", "VM.Standard2.1");
    lab.fake.fill_quietly("Fake:PHX-AD-2", "VM.Standard2.1");
    lab.edit(
        "nodes = \"standard-[0-2]\"\nflavor = \"VM.Standard.E5.Flex.2.24\"",
        "nodes = \"standard-[0-2]\"\nflavor = \"VM.Standard2.1\"",
    );
    lab.kiln(&["apply", "--yes"]);
    for node in ["standard-0", "standard-1", "standard-2"] {
        assert_eq!(lab.fake.domains_of(node), ["Fake:PHX-AD-3"], "{node}");
    }
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

/// Launches are accepted and come to nothing; only their work requests say why.
#[test]
fn launches_that_fail_later() {
    let lab = Lab::new("later", GROUPS);
    lab.fake.break_launches(Some(("InternalError", "the image cannot be read")));
    let said = lab.refused(&["apply", "--yes"]);
    // Who is seen to fail at once is told, whoever it is; the others are not waited for.
    let count =
        said.lines().filter(|line| line.ends_with(": InternalError: the image cannot be read")).count();
    assert!(count > 0 && (count == 1 || said.starts_with(&format!("error: {count} "))), "{said}");
    lab.fake.break_launches(None);
    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}
