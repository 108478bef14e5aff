//! Changing a living cluster.

use crate::behind::{cloud, only};
use crate::lab::{Lab, no_more_faults, order, wait};

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

/// Slurm refuses a file with a parameter it does not know; the old one stays in force everywhere. What the new one called
/// for is not lost: a restart of slurmctld comes with the mended file.
pub fn bad_parameter(lab: &mut Lab) {
    let file = lab.read_file();
    let slurmctld = |lab: &mut Lab| main_pid(lab, "control", "slurmctld.service");
    let before = slurmctld(lab);
    lab.edit("[slurm.config]\n", "[slurm.config]\nSchedulerType = \"sched/builtin\"\nNoSuchParameter = 1\n");
    let refused = lab.try_kiln(&["configure"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("unrecognized key: NoSuchParameter"), "{words}");
    for node in ["control", "login-0"] {
        assert!(
            lab.on(node, &["sinfo", "--noheader", "--format=%P"]).contains("standard"),
            "Slurm still answers"
        );
    }
    assert_eq!(slurmctld(lab), before, "the old file calls for no restart");
    lab.edit("NoSuchParameter = 1\n", "");
    lab.kiln(&["configure"]);
    assert_ne!(slurmctld(lab), before, "another scheduler takes a restart");
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    assert_unchanged(lab);
}

/// slurmctld drains a node that registers with less than slurm.conf says, and leaves it so when the file is mended. Here nodes
/// report what the host has, so Slurm believes the file: the test drains in slurmctld's name.
pub fn drained_for_its_size(lab: &mut Lab) {
    let drain = ["scontrol", "update", "state=drain"];
    let low = "reason=Low RealMemory (reported:1 < 100.00% of configured:2)";
    let slurmctld = ["runuser", "-u", "slurm", "--"].into_iter().chain(drain);
    lab.on("control", &slurmctld.chain(["nodename=extra-0", low]).collect::<Vec<_>>());
    lab.on("control", &drain.into_iter().chain(["nodename=extra-1", low]).collect::<Vec<_>>());
    lab.kiln(&["configure"]);
    let node = |lab: &mut Lab, name| lab.on("control", &["scontrol", "show", "node", "--oneliner", name]);
    let mended = node(lab, "extra-0");
    assert!(mended.contains(" State=IDLE ") && !mended.contains("Low RealMemory"), "{mended}");
    let kept = node(lab, "extra-1");
    assert!(
        kept.contains(" State=IDLE+DRAIN ") && kept.contains("Low RealMemory"),
        "a person's drain: {kept}"
    );
    lab.on("control", &["scontrol", "update", "nodename=extra-1", "state=resume"]);
}

pub fn main_pid(lab: &mut Lab, node: &str, unit: &str) -> String {
    lab.on(node, &["systemctl", "show", "--property=MainPID", "--value", unit])
}

pub fn assert_unchanged(lab: &mut Lab) {
    let again = lab.json(&["configure"]);
    for (node, report) in again["nodes"].as_object().expect("nodes") {
        for resource in report["resources"].as_array().expect("resources") {
            assert_eq!(resource["outcome"], "unchanged", "{node}: {resource}");
        }
    }
}

/// Devices and switches are described in files of their own, which slurmctld hands out. `/dev/null` stands for a GPU.
pub fn slurms_other_files(lab: &mut Lab) {
    let file = lab.read_file();
    lab.edit("[slurm.config]\n", "[slurm.config]\nGresTypes = \"gpu\"\nTopologyPlugin = \"topology/tree\"\n");
    lab.edit("nodes = \"extra-[0-1]\"\n", "nodes = \"extra-[0-1]\"\nnode_config = { Gres = \"gpu:1\" }\n");
    lab.edit(
        "[login.login]\n",
        "[[role.control.file]]\npath = \"/etc/slurm/gres.conf\"\n\
         content = \"NodeName=extra-[0-1] Name=gpu File=/dev/null\\n\"\n\
         [[role.control.file]]\npath = \"/etc/slurm/topology.conf\"\n\
         content = \"SwitchName=leaf Nodes=standard-[0-1],extra-[0-1]\\n\"\n\n[login.login]\n",
    );
    let running = lab.submit("--nodes=1 --partition=standard", "sleep 600");
    lab.wait_job(&running, "RUNNING");
    lab.kiln(&["configure"]);
    assert!(lab.on("control", &["scontrol", "show", "topology"]).contains("SwitchName=leaf"));
    // Only a slurmd that has read gres.conf tells a job which device is its own.
    for node in ["extra-0", "extra-1"] {
        let options = format!("--partition=extra --nodelist={node} --gres=gpu:1 --output=gpu.%j");
        let id = lab.submit(&options, "echo device $CUDA_VISIBLE_DEVICES");
        lab.wait_job(&id, "COMPLETED");
        assert_eq!(lab.as_user("login-0", &format!("cat gpu.{id}")), "device 0", "{node}");
    }
    assert_unchanged(lab);
    assert_eq!(lab.job(&running, "JobState"), "RUNNING", "restarts of the daemons harm no job");
    lab.as_user("login-0", &format!("scancel {running}"));

    let before = main_pid(lab, "control", "slurmctld.service");
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    lab.on("control", &["test", "!", "-e", "/etc/slurm/gres.conf"]);
    assert_ne!(main_pid(lab, "control", "slurmctld.service"), before, "without the files again");
    assert_unchanged(lab);
}

/// A compute node joins only when all of its bundle is applied; one that has joined stays.
pub fn configured_in_part(lab: &mut Lab) {
    let file = lab.read_file();
    let slurmd = |lab: &mut Lab, node: &str| {
        lab.try_kiln(&["ssh", node, "systemctl", "--quiet", "is-active", "slurmd.service"]).status.success()
    };
    lab.on("standard-1", &["systemctl", "stop", "slurmd.service"]);
    lab.write_file(&format!("{file}\n[role.compute]\ncommands = [\"echo no such driver >&2\", \"false\"]\n"));
    let refused = lab.try_kiln(&["configure"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("no such driver"), "{words}");
    assert!(slurmd(lab, "standard-0") && !slurmd(lab, "standard-1"));
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    assert!(slurmd(lab, "standard-1"));
}

/// A state volume that is not there costs the service, not the data: nothing starts on an empty directory.
pub fn state_volume_missing(lab: &mut Lab) {
    let id = lab.submit("--nodes=1", "sleep 600");
    lab.wait_job(&id, "RUNNING");
    // What lives on the volume goes down with it.
    lab.on("control", &["systemctl", "stop", "var-lib-state.mount"]);
    let units = ["kilnd.service", "slurmctld.service", "slurmdbd.service", "mariadb.service"];
    let none_runs = |lab: &mut Lab| {
        let states =
            lab.try_kiln(&[&["ssh", "control", "systemctl", "is-active"], units.as_slice()].concat());
        let states = String::from_utf8_lossy(&states.stdout).into_owned();
        assert!(states.lines().count() == 4 && !states.lines().any(|state| state == "active"), "{states}");
    };
    none_runs(lab);
    lab.on("control", &["mount", "--types", "tmpfs", "none", "/mnt/volumes"]);
    let refused = lab.try_kiln(&["configure"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("is not attached to this node"), "{words}");
    none_runs(lab);
    assert_eq!(
        lab.on("control", &["ls", "-A", "/var/lib/state"]),
        "",
        "nothing was made below the mount point"
    );

    lab.on("control", &["umount", "/mnt/volumes"]);
    // As if an image with another number for MariaDB's user had written it.
    lab.on("control", &["chown", "--recursive", "110:118", "/mnt/volumes/e2e-state/mysql"]);
    // As a Kiln left it that ran kilnd as Slurm's user.
    lab.on("control", &["chown", "--recursive", "slurm:slurm", "/mnt/volumes/e2e-state/kiln"]);
    lab.on("control", &["rmdir", "/mnt/volumes/e2e-state/kiln-spool"]);
    lab.kiln(&["configure"]);
    assert_eq!(lab.job(&id, "JobState"), "RUNNING", "Slurm knows its jobs");
    let owners = ["find", "/var/lib/state/kiln", "/var/lib/state/kiln-spool", "-printf", "%u:%g\\n"];
    let owners = lab.on("control", &owners);
    assert!(owners.lines().all(|owner| owner.starts_with("kilnd:")), "{owners}");
    wait("kilnd is at work", || lab.json(&["status"])["kilnd_error"].is_null());
    lab.as_user("login-0", &format!("scancel {id}"));
    lab.wait_job(&id, "CANCELLED");
}

/// What is not in use any more is closed: the account of a user who left the file.
pub fn user_leaves(lab: &mut Lab) {
    let file = lab.read_file();
    let key = std::fs::read_to_string(lab.path("user_key.pub")).expect("the key");
    lab.write_file(&format!("{file}\n[user.guest]\nuid = 2002\nssh_keys = [\"{}\"]\n", key.trim()));
    lab.kiln(&["configure"]);
    assert_eq!(lab.on("login-0", &["id", "-u", "guest"]), "2002");
    let enters = |lab: &mut Lab| lab.try_ssh("guest", "login-0", "true").status.success();
    assert!(enters(lab), "a new user logs in");
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    assert!(!enters(lab), "a user who left the file logged in");
    assert_eq!(lab.on("login-0", &["stat", "-c", "%u", "/home/guest"]), "2002", "the home directory stays");
}

/// One of many nodes is off: the others are configured, and it is told of.
pub fn node_off(lab: &mut Lab) {
    let id = only("extra-1").id;
    cloud(async |cloud| cloud.stop(&id, true).await);
    lab.edit("KillWait = 47", "KillWait = 53");
    let output = lab.try_kiln(&["configure"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("extra-1 is stopped"), "{words}");
    assert!(lab.on("control", &["scontrol", "show", "config"]).contains("KillWait                = 53"));
    assert!(lab.on("login-0", &["cat", "/etc/slurm/slurm.conf"]).contains("KillWait=53\n"));
    lab.kiln(&["up"]);
    assert_eq!(lab.on("control", &["sinfo", "-hN", "-p", "extra", "-n", "extra-1", "-o", "%t"]), "idle");
}

/// Volumes grow, and do not shrink.
pub fn volume(lab: &mut Lab) {
    let file = lab.read_file();
    let size = |text: &str| lab.write_file(&format!("{file}\n[volumes]\nhome = {{ size = \"{text}\" }}\n"));
    size("12 GiB");
    assert!(lab.kiln(&["plan"]).contains("~ volume e2e-home: extend, 10 -> 12 GiB"));
    lab.kiln(&["up"]);
    // An image that is due may be noted.
    assert_eq!(lab.json(&["plan"])["actions"], serde_json::json!([]));
    size("11 GiB");
    for words in [&["plan"][..], &["up", "--yes"]] {
        let refused = lab.try_kiln(words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("volume e2e-home has 12 GiB; it cannot shrink to 11 GiB"), "{said}");
    }
    size("12 GiB");
}

pub fn resize(lab: &mut Lab) {
    lab.edit("nodes = \"extra-[0-1]\"", "nodes = \"extra-0\"");
    let refused = lab.try_kiln(&["apply"]);
    assert!(!refused.status.success(), "deleting an instance must be agreed to");
    assert!(lab.kiln(&["plan"]).contains("- compute.extra: drain extra-1 (1 node), then delete"));
    lab.kiln(&["up", "--yes"]);
    assert_eq!(lab.hosts().len(), 5);
    let nodes = lab.on("control", &["sinfo", "--noheader", "--Node", "--format=%N", "--partition=extra"]);
    assert_eq!(nodes, "extra-0");

    lab.edit("nodes = \"extra-0\"", "nodes = \"extra-[0-2]\"");
    order(r#"{"build extra-2": {"fail": 1, "status": 500, "message": "no valid host was found"}}"#);
    let broken = lab.try_kiln(&["apply"]);
    no_more_faults();
    let words = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(
        !broken.status.success() && words.contains("extra-2 is broken: no valid host was found"),
        "{words}"
    );
    lab.kiln(&["up", "--yes"]);
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
        lab.try_on("standard-1", &["systemctl", "--quiet", "is-active", unit]).status.success()
    };
    wait("the node is configured", || active("kiln-node.service", lab) && active("slurmd.service", lab));
    let id = lab.submit("--nodes=1 --nodelist=standard-1", "hostname");
    lab.wait_job(&id, "COMPLETED");
}
