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
    assert!(output.status.success(), "{command:?}: {}", crate::cluster_dir::printed(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn oci(lab: &Lab, words: &str) -> String {
    let mut command = client(lab, "oci");
    command.args(words.split(' '));
    output(command)
}

/// The SDK reads what Kiln made, makes instances of its own beside it, and is refused what it should be. Kiln removes the one
/// that has the tags of its cluster, and leaves the other alone, also when that keeps the network from going.
#[test]
fn the_sdk_and_kiln_see_the_same() {
    let hpc = "[compute.hpc]\nnodes = \"hpc-[0-1]\"\nflavor = \"BM.HPC2.36\"\n\n[volumes]\nhome = \"file_storage\"\n";
    let lab = Lab::new("sdk", &format!("{GROUPS}\n{hpc}"));
    lab.fake.allow_reports();
    lab.kiln(&["apply"]);
    let hosts = lab.path("hosts.json");
    std::fs::write(&hosts, serde_json::to_string(&lab.hosts()).unwrap()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oci-sdk/scenario.py");
    let mut command = client(&lab, "python");
    command.arg(script).arg(&hosts);
    assert!(output(command).ends_with("as expected\n"));
    assert_eq!((lab.fake.count("standard-7"), lab.fake.count("of-the-sdk")), (1, 1));
    // Without asking Slurm, which no node of the fake has.
    lab.kiln(&["apply", "--yes", "--now"]);
    assert_eq!((lab.fake.count("standard-7"), lab.fake.count("of-the-sdk")), (0, 1));
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));

    let told = lab.refused(&["destroy", "--yes"]);
    assert!(told.contains("instance of-the-sdk, which is not the cluster's, uses network sdk"), "{told}");
    let query = "--query data[?\"display-name\"=='of-the-sdk'].id|[0] --raw-output";
    let id = oci(&lab, &format!("compute instance list --all --compartment-id {COMPARTMENT} {query}"));
    oci(&lab, &format!("compute instance terminate --force --instance-id {}", id.trim()));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

/// The command lists what Kiln made and terminates one node; Kiln makes it again.
#[test]
fn the_command_and_kiln_see_the_same() {
    let lab = Lab::new("command", GROUPS);
    lab.kiln(&["apply"]);
    let all = oci(&lab, &format!("compute instance list --all --compartment-id {COMPARTMENT}"));
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    let mut names: Vec<&str> =
        all["data"].as_array().unwrap().iter().map(|one| one["display-name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["control", "login-0", "standard-0", "standard-1", "standard-2"]);
    let one = all["data"].as_array().unwrap().iter().find(|one| one["display-name"] == "standard-1").unwrap();
    assert_eq!(one["freeform-tags"]["kiln_cluster"], "command");
    // Kiln has made none, and takes one that has its cluster's tag for its own.
    let domain = "--availability-domain Fake:PHX-AD-1";
    let place = format!("--compartment-id {COMPARTMENT} {domain}");
    let tags = "--freeform-tags {\"kiln_cluster\":\"command\"}";
    oci(&lab, &format!("fs file-system create {place} --display-name left {tags} --wait-for-state ACTIVE"));
    let listed = oci(&lab, &format!("fs file-system list {place} --query data[].\"display-name\""));
    assert_eq!(serde_json::from_str::<Vec<String>>(&listed).unwrap(), ["left"]);
    oci(&lab, &format!("compute compute-cluster create {place} --display-name left {tags}"));
    let id = one["id"].as_str().unwrap();
    // The boot volume that stays is nobody's any more, until the cluster goes.
    oci(&lab, &format!("compute instance terminate --force --preserve-boot-volume true --instance-id {id}"));
    // Gone a while after the command has ended; every question brings the fake forward.
    let is_there = || lab.hosts().iter().any(|host| host["instance_id"] == id);
    assert!((0..100).any(|_| !is_there()), "standard-1 is not gone");
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("+ compute.standard: create standard-1 from image-a"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    let volumes = |lab: &Lab| lab.fake.left().iter().filter(|what| what.starts_with("bootVolumes")).count();
    assert_eq!(volumes(&lab), 6, "five nodes have one each");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}
