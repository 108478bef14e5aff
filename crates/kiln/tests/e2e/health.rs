//! The health check of compute nodes, run by real slurmds.

use crate::cluster_dir::printed;
use crate::lab::{Lab, wait};

const HOOK: &str = "/usr/local/libexec/kiln/kiln-health";

fn record(lab: &Lab, node: &str) -> String {
    lab.on("control", &["scontrol", "show", "node", "--oneliner", node])
}

fn verdict(lab: &Lab, node: &str) -> String {
    let report: serde_json::Value =
        serde_json::from_slice(&lab.try_kiln(&["--json", "status"]).stdout).expect("JSON");
    let found = report["nodes"].as_array().into_iter().flatten().find(|n| n["node"] == node);
    found.and_then(|n| n["verdict"].as_str()).unwrap_or_default().to_string()
}

/// What the check finds drains a node, and what it no longer finds brings it back; other drains stay.
pub fn drains_and_returns(lab: &mut Lab) {
    let file = lab.read_file();
    let command = "test ! -e /run/broken || { echo no link on ib0; exit 1; }";
    lab.write_file(&format!("{file}\n[health]\nevery = \"5s\"\ncommands = [\"{command}\"]\n"));
    lab.kiln(&["configure"]);
    let update = |words: &[&str]| {
        lab.on("control", &[&["scontrol", "update", "nodename=extra-1"], words].concat());
    };
    update(&["state=drain", "reason=bad fan"]);
    for node in ["standard-0", "extra-1"] {
        lab.on(node, &["touch", "/run/broken"]);
    }
    let home = ["systemctl", "stop", "home.mount"];
    lab.on("standard-1", &home);

    let drained = |node: &str, why: &str| {
        wait(&format!("{node} is drained: {why}"), || {
            let record = record(lab, node);
            record.contains("+DRAIN") && record.contains("Reason=kiln: health: ") && record.contains(why)
        });
    };
    drained("standard-0", "no link on ib0");
    drained("standard-1", "/home is not mounted");
    assert!(verdict(lab, "standard-0").starts_with("unhealthy: `test ! -e /run/broken"));
    assert_eq!(verdict(lab, "standard-1"), "unhealthy: /home is not mounted");
    let said = lab.try_kiln(&["doctor"]);
    assert!(printed(&said).contains("standard-1: unhealthy: /home is not mounted"), "{}", printed(&said));
    let found = lab.try_on("standard-0", &["kiln", "node", "check"]);
    assert_eq!(found.status.code(), Some(1), "{}", printed(&found));
    assert!(printed(&found).contains("no link on ib0"), "{}", printed(&found));

    for node in ["standard-0", "extra-1"] {
        lab.on(node, &["rm", "/run/broken"]);
    }
    lab.on("standard-1", &["systemctl", "start", "home.mount"]);
    for node in ["standard-0", "standard-1"] {
        wait(&format!("{node} is back"), || record(lab, node).contains(" State=IDLE "));
    }
    assert!(record(lab, "extra-1").contains("Reason=bad fan"), "an administrator's drain");
    update(&["state=resume"]);
    assert_eq!(lab.on("standard-0", &["kiln", "node", "check"]), "healthy");
    is_quick(lab);
    without_slurmctld(lab);
    lab.write_file(&file);
    lab.kiln(&["configure"]);
}

/// A check that cannot tell Slurm what it has found is not a reason to drain, nor is that it has to ask.
fn without_slurmctld(lab: &Lab) {
    lab.on("control", &["systemctl", "stop", "slurmctld.service"]);
    lab.on("standard-0", &[&format!("rm {}; {HOOK}", kiln_wire::paths::HEALTHY)]);
    lab.on("control", &["systemctl", "start", "slurmctld.service"]);
    lab.on("standard-0", &[HOOK]);
    wait("the node is in service as before", || {
        let record = record(lab, "standard-0");
        record.contains(" State=IDLE ") && !record.contains("Reason=")
    });
    wait("the check has nothing to ask any more", || {
        lab.on("standard-0", &[HOOK]);
        lab.try_on("standard-0", &["test", "-e", kiln_wire::paths::HEALTHY]).status.success()
    });
}

/// Other nodes of this machine are at work as well: what counts is the time that it needs, not how long it waits for its turn.
fn is_quick(lab: &Lab) {
    let script = format!("TIMEFORMAT='%3R %3U %3S'; for n in $(seq 10); do time {HOOK}; done 2>&1");
    let times = lab.on("standard-0", &["bash", "-c", &script]);
    println!("health check, whole, user and system time in s: {}", times.replace('\n', ", "));
    let needed =
        |line: &str| line.split(' ').skip(1).filter_map(|word| word.parse::<f64>().ok()).sum::<f64>();
    let times: Vec<f64> = times.lines().map(needed).collect();
    assert_eq!(times.len(), 10, "{times:?}");
    assert!(times.iter().any(|seconds| *seconds < 0.050), "{times:?}");
}
