//! What a run that was cut off left half made is completed by the next one, which is another process.

use crate::lab::{Lab, openstack, own_project, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-1]\"\nflavor = \"tiny\"\n";

/// Killed in the middle of every stage in turn.
#[test]
fn a_run_that_was_killed_is_continued() {
    let lab = Lab::new("killed", GROUPS);
    for moment in ["volume killed-", "security group killed-", "control", "standard-"] {
        lab.kiln_killed_at(&["apply", "--yes"], moment);
    }
    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    let servers = openstack(&["server list --tags kiln_cluster=killed"]).remove(0);
    let mut names: Vec<&str> =
        servers.as_array().unwrap().iter().map(|row| row["Name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["control", "login-0", "standard-0", "standard-1"], "each once");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// The parts that no name gives away: a network without its router, a group without its rules.
#[test]
fn half_made_resources_are_completed() {
    let lab = Lab::new("halves", GROUPS);
    let instances = |most: i32| format!("quota set --instances {most} {}", own_project());
    lab.undo_with("admin", &[&instances(-1)]);
    tell("admin", &[&instances(0)]);
    lab.refused(&["apply", "--yes"]);
    tell("admin", &[&instances(-1)]);
    assert!(!lab.kiln(&["plan"]).contains("network halves"), "up to here all is whole");

    let group = &openstack(&["security group show halves-cluster"])[0];
    let ingress: Vec<String> = (group["rules"].as_array().unwrap().iter())
        .filter(|rule| rule["direction"] == "ingress" && rule["protocol"].is_null())
        .map(|rule| format!("security group rule delete {}", rule["id"].as_str().unwrap()))
        .collect();
    assert!(!ingress.is_empty(), "{group}");
    let mut commands = vec!["router remove subnet halves halves", "router delete halves"];
    commands.extend(ingress.iter().map(String::as_str));
    tell("demo", &commands);

    let plan = lab.kiln(&["plan"]);
    for line in [
        "~ network halves: create its missing router",
        "~ security group halves-cluster: add its missing rules (the cluster's own nodes, SSH from its network)",
    ] {
        assert!(plan.contains(line), "{plan}");
    }
    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    let router = openstack(&["router show halves"]).remove(0);
    assert_eq!(router["interfaces_info"].as_array().map(Vec::len), Some(1), "{router}");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// One that the cloud could not create is created again; one that was ever in use never is, whatever the cloud shows.
#[test]
fn only_a_volume_without_data_is_recreated() {
    let lab = Lab::new("errors", GROUPS);
    let id = || openstack(&["volume show errors-home"])[0]["id"].as_str().unwrap().to_string();
    lab.kiln_killed_at(&["apply", "--yes"], "volume errors-home");
    let unused = id();
    tell("admin", &[&format!("volume set --state error {unused}")]);
    let plan = lab.kiln(&["plan"]);
    assert!(
        plan.contains("- volume errors-home: the cloud could not create it; deleted and recreated"),
        "{plan}"
    );
    let asked = lab.refused(&["apply"]);
    assert!(asked.starts_with("error: Deleting the volume errors-home needs confirmation"), "{asked}");
    lab.kiln(&["apply", "--yes"]);
    let used = id();
    assert_ne!(used, unused);

    // Without its server, so that nothing but the label tells of its use.
    tell("demo", &["server delete --wait control"]);
    tell("admin", &[&format!("volume set --state error {used}")]);
    for arguments in [&["plan"] as &[&str], &["apply", "--yes"], &["up", "--yes"]] {
        let refused = lab.refused(arguments);
        let words = format!(
            "error: the cloud reports an error for volume errors-home ({used}), which has been in use and may hold data"
        );
        assert!(refused.starts_with(&words), "{refused}");
    }
    assert_eq!(id(), used);
    let asked = lab.refused(&["destroy"]);
    assert!(
        asked.contains("with the data on the volumes errors-backup, errors-home, errors-share, errors-state"),
        "{asked}"
    );
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
