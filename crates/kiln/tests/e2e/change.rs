//! Changing a living cluster.

use crate::lab::{Lab, wait};

pub fn parameter(lab: &mut Lab) {
    let before = lab.json(&["inventory"]);
    let id = lab.submit("--nodes=2", "sleep 600");
    lab.wait_job(&id, "RUNNING");
    let started = lab.job(&id, "StartTime");

    lab.edit("KillWait = 30", "KillWait = 47");
    let plan = lab.json(&["plan"]);
    assert_eq!(plan["actions"].as_array().map(Vec::len), Some(0), "{plan}");
    lab.kiln(&["configure"]);

    for node in ["control", "login-0", "standard-0", "extra-1"] {
        let seen = lab.on(node, &["scontrol", "show", "config"]);
        let line = seen.lines().find(|l| l.starts_with("KillWait")).unwrap_or_default();
        assert!(line.contains("= 47"), "{node}: {line}");
    }
    // What slurmd itself holds, not what slurmctld answers.
    for node in ["standard-0", "standard-1", "extra-0", "extra-1"] {
        wait(&format!("slurmd on {node} has the new file"), || {
            lab.on(node, &["grep", "-rh", "KillWait", "/run/slurm/conf/slurm.conf"]) == "KillWait=47"
        });
    }
    assert_eq!(lab.job(&id, "JobState"), "RUNNING");
    assert_eq!((lab.job(&id, "StartTime"), lab.job(&id, "Restarts")), (started, "0".to_string()));
    assert_eq!(before, lab.json(&["inventory"]), "no instance was touched");
    lab.as_user("login-0", &format!("scancel {id}"));
    lab.wait_job(&id, "CANCELLED");
}

pub fn resize(lab: &mut Lab) {
    lab.edit("nodes = \"extra-[0-1]\"", "nodes = \"extra-0\"");
    let refused = lab.try_kiln(&["apply"]);
    assert!(!refused.status.success(), "deleting an instance must be agreed to");
    assert!(lab.kiln(&["plan"]).contains("- compute.extra: delete extra-1"));
    lab.kiln(&["up", "--yes"]);
    assert_eq!(lab.hosts().len(), 5);
    let nodes = lab.on("control", &["sinfo", "--noheader", "--Node", "--format=%N", "--partition=extra"]);
    assert_eq!(nodes, "extra-0");

    lab.edit("nodes = \"extra-0\"", "nodes = \"extra-[0-2]\"");
    lab.kiln(&["up"]);
    let id = lab.submit("--nodes=3 --partition=extra --output=grown.%j", "srun hostname");
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("sort grown.{id}")), "extra-0\nextra-1\nextra-2");
}

pub fn reboot(lab: &mut Lab) {
    let boot_id = |lab: &mut Lab| lab.on("standard-1", &["cat", "/run/kiln-boot-mark"]);
    lab.on("standard-1", &["sh", "-c", "echo before >/run/kiln-boot-mark"]);
    assert_eq!(boot_id(lab), "before");
    lab.try_kiln(&["ssh", "standard-1", "systemctl", "reboot"]);
    wait("the mark of the old boot is gone", || {
        lab.try_kiln(&["ssh", "standard-1", "test", "!", "-e", "/run/kiln-boot-mark"]).status.success()
    });
    // No configure: the node fetched its bundle from the share and started slurmd by itself.
    let active = |unit: &str, lab: &mut Lab| {
        lab.try_kiln(&["ssh", "standard-1", "systemctl", "--quiet", "is-active", unit]).status.success()
    };
    wait("the node is configured", || active("kiln-node.service", lab) && active("slurmd.service", lab));
    let id = lab.submit("--nodes=1 --nodelist=standard-1", "hostname");
    lab.wait_job(&id, "COMPLETED");
}
