//! Rollouts while things break: daemons, the cloud, a node.

use std::process::Command;
use std::time::Instant;

use crate::daemon::daemon_pid;
use crate::lab::{Lab, cloud_root, faults_left, no_more_faults, order, read, wait};
use crate::rollout::{COMPUTE, images, use_image, which_image};
use crate::steering::out_of_service;

/// How often the cloud was asked to rebuild a node and agreed, by its own log behind this place.
fn rebuilds(lab: &mut Lab, node: &str, since: usize) -> usize {
    let host = lab.host(node);
    let call = format!("/v1/instances/{}/rebuild", host["instance_id"].as_str().expect("an id"));
    let done = |line: &&str| line.contains(&call) && line.contains("status=200");
    cloud_log().get(since..).expect("the log only grows").lines().filter(done).count()
}

fn cloud_log() -> String {
    read(&cloud_root().join("daemon.log"))
}

fn reason(lab: &mut Lab, node: &str) -> String {
    lab.on(
        "control",
        &["sinfo", "--noheader", "--Node", "--partition=rebuild", "--nodes", node, "--format=%E"],
    )
}

/// Everything is killed on the way, the cloud refuses and does not answer, and a second rollout is refused; each node is rebuilt once.
pub fn troubled(lab: &mut Lab) {
    use_image(lab, "third");
    let faults =
        r#"{"rebuild": {"fail": 2, "status": 429, "retry_after": 1}, "get": {"fail": 3, "status": 503}}"#;
    order(faults);
    let mark = cloud_log().len();
    lab.kiln(&["rebuild", "--detach"]);
    let second = lab.try_kiln(&["rebuild", "--nodes", "extra-0"]);
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains("extra-0"), "{words}");

    let mut kills = 0;
    let mut last = String::new();
    let start = Instant::now();
    let mut killed = start;
    loop {
        let report = lab.json(&["rebuild", "status"]);
        let steps: Vec<&str> =
            report["nodes"].as_array().expect("nodes").iter().filter_map(|n| n["step"].as_str()).collect();
        let steps = steps.join(" ");
        if report["state"] == "done" {
            assert_eq!(report["done"], 4, "{report}");
            break;
        }
        assert_eq!(report["state"], "running", "{report}");
        assert!(start.elapsed().as_secs() < 900, "{report}");
        // At every new step, and every few seconds between.
        if kills < 10 && (steps != last || killed.elapsed().as_secs() >= 3) {
            killed = Instant::now();
            lab.on("control", &["systemctl", "kill", "--signal=KILL", "kilnd.service"]);
            kills += 1;
            if kills == 4 {
                lab.on("control", &["systemctl", "restart", "slurmctld.service"]);
            }
            if kills == 6 {
                let pid = daemon_pid().expect("the cloud's daemon runs");
                let killed = Command::new("kill").args(["-9", &pid]).status().expect("kill runs");
                assert!(killed.success());
            }
            wait("kilnd is back", || {
                lab.try_on("control", &["systemctl", "--quiet", "is-active", "kilnd"]).status.success()
            });
        }
        last = steps;
    }
    assert_eq!(kills, 10, "the rollout was over too soon");
    let left = faults_left();
    assert!(left.is_empty(), "nobody ran into {left:?}");
    no_more_faults();
    for node in COMPUTE {
        assert_eq!(which_image(lab, node), "third");
    }
    // As the cloud wrote it down: one rebuild for each node.
    for node in COMPUTE {
        assert_eq!(rebuilds(lab, node, mark), 1, "{node}");
    }
    assert_eq!(out_of_service(lab), "");
}

/// A node whose build fails is drained in words; the next rollout brings it back together with the others.
pub fn broken_node(lab: &mut Lab) {
    use_image(lab, "fifth");
    order(r#"{"build": {"fail": 3, "status": 500, "message": "no valid host was found"}}"#);
    let failed = lab.try_kiln(&["rebuild", "--nodes", "extra-0"]);
    no_more_faults();
    let words = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{words}");
    // The rollout is over a moment before Slurm is told.
    wait("Slurm has the reason", || {
        let why = reason(lab, "extra-0");
        why.starts_with("kiln: ") && why.contains("no valid host was found")
    });

    let all = lab.json(&["rebuild"]);
    assert_eq!((&all["done"], &all["failed"], &all["skipped"]), (&4.into(), &0.into(), &0.into()), "{all}");
    for node in COMPUTE {
        assert_eq!(which_image(lab, node), "fifth");
    }
    assert_eq!(out_of_service(lab), "");
    let id = lab.submit("--nodes=2 --partition=extra", "srun hostname");
    lab.wait_job(&id, "COMPLETED");
}

/// A node that is built but whose system never comes up: Slurm gives it up, Kiln says so and goes on with the
/// others; when what was wrong is mended, the next rollout brings it back.
pub fn never_boots(lab: &mut Lab) {
    lab.edit("KillWait = 30\n", "KillWait = 30\nResumeTimeout = 120\n");
    use_image(lab, "second");
    let mark = cloud_log().len();
    order(r#"{"boot extra-0": {"fail": 99}}"#);
    lab.kiln(&["rebuild", "--detach", "--halt-after", "2"]);
    let report = lab.watch();
    assert_eq!((&report["done"], &report["failed"]), (&3.into(), &1.into()), "{report}");
    let why = reason(lab, "extra-0");
    assert!(why.starts_with("kiln: ") && why.contains("did not come back to Slurm within 120 s"), "{why}");
    for node in COMPUTE {
        assert_eq!(rebuilds(lab, node, mark), 1, "{node}");
    }
    // Another's drain of another node is none of Kiln's business.
    lab.on("control", &["scontrol", "update", "nodename=standard-1", "state=drain", "reason=bad fan"]);

    no_more_faults();
    let mended = lab.json(&["rebuild", "--nodes", "extra-0"]);
    assert_eq!((&mended["done"], &mended["failed"]), (&1.into(), &0.into()), "{mended}");
    assert_eq!(which_image(lab, "extra-0"), "second");
    assert_eq!(reason(lab, "standard-1"), "bad fan");
    let others = out_of_service(lab);
    assert!(others.lines().count() == 1 && others.starts_with("standard-1 drained"), "{others}");
    lab.on("control", &["scontrol", "update", "nodename=standard-1", "state=resume"]);
    let id = lab.submit("--nodes=2 --partition=extra", "srun hostname");
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(images(lab).values().collect::<std::collections::BTreeSet<_>>().len(), 1);
}
