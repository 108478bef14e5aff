//! Oracle's own SDK and command against the fake, beside Kiln.

use std::path::PathBuf;
use std::process::Command;

use kiln_cloud::oci::fake::COMPARTMENT;

use crate::lab::Lab;

const GROUPS: &str =
    "[compute.standard]\nnodes = \"standard-[0-2]\"\nflavor = \"VM.Standard.E5.Flex.2.24\"\n";

/// A program of the clients' virtual environment, with the same surroundings as Kiln.
fn client(lab: &Lab, program: &str) -> Command {
    let clients = std::env::var_os("KILN_OCI_CLIENTS").expect("KILN_OCI_CLIENTS: `./dev test oci` sets it");
    let mut command = Command::new(PathBuf::from(clients).join("bin").join(program));
    command
        .env("SUPPRESS_LABEL_WARNING", "True")
        .env("FAKE_URL", &lab.fake.url)
        .env("FAKE_COMPARTMENT", COMPARTMENT)
        .envs(lab.environment.iter().map(|(name, value)| (name, value)));
    command
}

fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The SDK reads what Kiln made, makes an instance of its own beside it, and is refused what it should be; Kiln leaves that
/// instance alone.
#[test]
fn the_sdk_and_kiln_see_the_same() {
    let lab = Lab::new("sdk", GROUPS);
    lab.kiln(&["apply"]);
    let hosts = lab.path("hosts.json");
    std::fs::write(&hosts, serde_json::to_string(&lab.hosts()).unwrap()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oci-sdk/scenario.py");
    let mut command = client(&lab, "python");
    command.arg(script).arg(&hosts);
    assert!(output(command).ends_with("as expected\n"));
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."), "what the SDK made is not the cluster's");
    lab.kiln(&["destroy", "--yes"]);
    let left = lab.fake.left();
    assert!(left.contains(&"instances of-the-sdk".to_string()), "{left:?}");
    assert!(!left.iter().any(|what| what.contains("standard") || what.contains("control")), "{left:?}");
}

/// The command lists what Kiln made and terminates one node; Kiln makes it again.
#[test]
fn the_command_and_kiln_see_the_same() {
    let lab = Lab::new("command", GROUPS);
    lab.kiln(&["apply"]);
    let oci = |words: &str| {
        let mut command = client(&lab, "oci");
        command.args(words.split(' '));
        output(command)
    };
    let all = oci(&format!("compute instance list --all --compartment-id {COMPARTMENT}"));
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    let mut names: Vec<&str> =
        all["data"].as_array().unwrap().iter().map(|one| one["display-name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["control", "login-0", "standard-0", "standard-1", "standard-2"]);
    let one = all["data"].as_array().unwrap().iter().find(|one| one["display-name"] == "standard-1").unwrap();
    assert_eq!(one["freeform-tags"]["kiln_cluster"], "command");
    let id = one["id"].as_str().unwrap();
    oci(&format!(
        "compute instance terminate --force --instance-id {id} --wait-for-state TERMINATED --wait-interval-seconds 1"
    ));
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("+ compute.standard: create standard-1 from image-a"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}
