//! Services that are down, and who says so.

use std::process::Stdio;
use std::time::Duration;

use kiln_wire::labels;
use serde_json::Value;

use crate::behind::{cloud, make};
use crate::cluster_dir::printed;
use crate::lab::{Lab, wait};

/// A node's verdict, and the exit code of `status`.
fn verdict(lab: &Lab, node: &str) -> (String, Option<i32>) {
    let output = lab.try_kiln(&["--json", "status"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = report["nodes"].as_array().into_iter().flatten().find(|n| n["node"] == node);
    let verdict = found.and_then(|n| n["verdict"].as_str()).unwrap_or_default();
    (verdict.to_string(), output.status.code())
}

fn all_well(lab: &Lab) {
    wait("all is well", || lab.try_kiln(&["status"]).status.code() == Some(0));
}

pub fn down(lab: &mut Lab) {
    all_well(lab);
    for unit in ["slurmctld.service", "slurmdbd.service", "mariadb.service"] {
        lab.on("control", &["systemctl", "stop", unit]);
        let (said, code) = verdict(lab, "control");
        assert!(said.contains(&format!("{unit} is inactive")), "{said}");
        assert_eq!(code, Some(1));
        if unit == "slurmctld.service" {
            let (said, _) = verdict(lab, "login-0");
            assert!(said.starts_with("Slurm's commands get no answer"), "{said}");
            assert_eq!(verdict(lab, "standard-0").0, "Slurm could not be reached");
        }
        lab.on("control", &["systemctl", "start", "mariadb.service", "slurmdbd.service", unit]);
        all_well(lab);
    }
    // It runs, as far as systemd can tell.
    lab.on("control", &["systemctl", "kill", "--signal=STOP", "slurmdbd.service"]);
    let (said, code) = verdict(lab, "control");
    lab.on("control", &["systemctl", "kill", "--signal=CONT", "slurmdbd.service"]);
    assert!(said.contains("slurmdbd does not answer"), "{said}");
    assert_eq!(code, Some(1));

    lab.on("login-0", &["systemctl", "stop", "munge.service"]);
    assert_eq!(verdict(lab, "login-0").0.split(';').next(), Some("munge.service is inactive"));
    lab.on("login-0", &["systemctl", "start", "munge.service"]);
    all_well(lab);
}

/// A node that lets nobody in for a while, as a busy one does: who looks is told soon, who works there waits.
pub fn slow(lab: &mut Lab) {
    let sshd = |signal: &str| {
        lab.on("standard-0", &["systemctl", "kill", "--kill-whom=main", signal, "ssh.service"])
    };
    sshd("--signal=STOP");
    let looked = lab.try_kiln(&["exec", "--nodes", "standard-[0-1]", "hostname"]);
    let mut works = lab.kiln_command(&["ssh", "standard-0", "hostname"]);
    let works = works.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    // Longer than who looks.
    std::thread::sleep(Duration::from_secs(11));
    sshd("--signal=CONT");
    let worked = works.and_then(std::process::Child::wait_with_output).expect("kiln runs");
    let said = printed(&looked);
    assert!(said.contains("standard-1: standard-1"), "{said}");
    assert!(said.contains("standard-0 could not be reached over SSH: Connection timed out"), "{said}");
    assert_eq!(looked.status.code(), Some(1));
    assert!(worked.status.success(), "{}", printed(&worked));
    assert_eq!(String::from_utf8_lossy(&worked.stdout), "standard-0\n");
}

/// The whole cluster is examined: well, and with two faults at once.
pub fn examined(lab: &mut Lab) {
    let mut said = String::new();
    wait("the cluster is found well", || {
        let output = lab.try_kiln(&["doctor"]);
        said = printed(&output);
        output.status.code() == Some(0)
    });
    assert!(said.ends_with("cluster e2e: all is well (6 nodes asked)\n"), "{said}");

    lab.on("control", &["systemctl", "stop", "slurmdbd.service"]);
    let stray = make("someone", &[(labels::ROLE, "other")]);
    let output = lab.try_kiln(&["--json", "doctor"]);
    lab.on("control", &["systemctl", "start", "slurmdbd.service"]);
    cloud(async |cloud| cloud.delete(&stray.id).await);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found: Vec<[&str; 3]> = (report["findings"].as_array().expect("findings").iter())
        .map(|f| ["severity", "subject", "text"].map(|key| f[key].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(found[0], ["broken", "control", "slurmdbd.service is inactive"], "{report}");
    let is_stray = |f: &[&str; 3]| f[0] == "warning" && f[1] == "someone" && f[2].starts_with("an instance");
    assert!(found.iter().any(is_stray), "{report}");
    all_well(lab);
}
