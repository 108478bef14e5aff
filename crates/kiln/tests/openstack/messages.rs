//! What an administrator reads when something is wrong.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::lab::{Lab, openstack, own_project, services, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-3]\"\nflavor = \"tiny\"\n";

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let mut lab = Lab::new("words", GROUPS);
    let good = lab.read_file();
    let mut said = String::new();
    let mut note = |what: &str, message: String| _ = writeln!(said, "# {what}\n{message}\n");

    let wrong = [
        ("a cloud that clouds.yaml does not have", "cloud = \"demo\"", "cloud = \"demmo\""),
        ("a region that the cloud does not have", "cloud = \"demo\"", "cloud = \"demo\"\nregion = \"north\""),
        ("a flavor that the cloud does not have", "flavor = \"tiny\"", "flavor = \"huge\""),
        ("an image that the cloud does not have", "image-a", "image-z"),
        ("a network that the cloud does not have", "subnet = \"10.41.0.0/24\"", "network = \"nowhere\""),
        ("an external network that the cloud does not have", "\"public\"", "\"outside\""),
        (
            "a key pair that the cloud does not have",
            "cloud = \"demo\"",
            "cloud = \"demo\"\nkey_pair = \"ada\"",
        ),
    ];
    for (what, from, to) in wrong {
        assert!(good.contains(from));
        lab.write_file(&good.replace(from, to));
        note(what, lab.refused(&["plan"]));
    }
    // Key pairs are their owner's alone; a colleague may look all the same.
    assert!(lab.read_file().contains("key_pair"));
    lab.hosts();
    lab.write_file(&good);
    let clouds = std::fs::read_to_string(services()).unwrap();
    for (what, from, to) in [
        ("a wrong password", "password: loopback", "password: wrong"),
        ("an address where nothing answers", ":5000", ":5099"),
        ("an address of something else", ":5000/v3", ":9292/v3"),
        ("half a clouds.yaml", "password: loopback", "passwort: loopback"),
        ("no YAML", "clouds:", "clouds: ["),
    ] {
        lab.write_clouds(&clouds.replace(from, to));
        note(what, lab.refused(&["plan"]));
    }
    lab.set_environment(&services(), &[]);

    let instances = |most: i32| format!("quota set --instances {most} {}", own_project());
    lab.undo_with("admin", &[&instances(-1)]);
    tell("admin", &[&instances(0)]);
    let refused = lab.refused(&["apply"]);
    tell("admin", &[&instances(-1)]);
    note("a full project", refused);
    // What was made stays, and the next run goes on from there.
    lab.kiln(&["apply", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));

    lab.undo_with("demo", &["volume snapshot delete words-backup"]);
    openstack(&["volume snapshot create --volume words-home --force words-backup"]);
    let is_made = || openstack(&["volume snapshot show words-backup"])[0]["status"] == "available";
    let start = Instant::now();
    while !is_made() {
        assert!(start.elapsed() < Duration::from_secs(300), "Cinder does not make a snapshot");
        std::thread::sleep(Duration::from_millis(200));
    }
    note("somebody's snapshot of a volume", lab.refused(&["destroy", "--yes"]));
    tell("demo", &["volume snapshot delete words-backup"]);
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    insta::assert_snapshot!(said);
}
