//! A rollout under an administrator's hands: one node at a time, drained instead of queued, paused, aborted.

use crate::lab::{Lab, wait};
use crate::rollout::{COMPUTE, steps, use_image, which_image};

/// `scontrol reboot ASAP` in place of jobs: running jobs end, and no new one gets in between.
pub fn drained(lab: &mut Lab) {
    use_image(lab, "fourth");
    lab.as_user("login-0", "rm -f may-end");
    let before = lab.submit(
        "--nodes=1 --exclusive --partition=extra --nodelist=extra-0 --output=drain.%j",
        "until test -e may-end; do sleep 0.2; done; hostname",
    );
    lab.wait_job(&before, "RUNNING");
    lab.kiln(&["rebuild", "--detach", "--strategy", "drain", "--check", "test -e /etc/which-image"]);
    wait("the node of the running job drains", || steps(lab)["extra-0"] == "draining");
    let after = lab
        .submit("--nodes=1 --partition=extra --nodelist=extra-0 --output=drain.%j", "cat /etc/which-image");
    lab.as_user("login-0", "touch may-end");
    let report = lab.watch();
    assert_eq!((&report["done"], &report["failed"]), (&4.into(), &0.into()), "{report}");
    lab.wait_job(&before, "COMPLETED");
    lab.wait_job(&after, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat drain.{after}")), "fourth", "it ran before the rebuild");
    for node in COMPUTE {
        assert_eq!(which_image(lab, node), "fourth");
    }
    assert_eq!(out_of_service(lab), "");
}

/// One at a time; paused when the first is done, so that three have not begun; resumed; aborted with two left.
pub fn paused_and_aborted(lab: &mut Lab) {
    let old = which_image(lab, COMPUTE[0]);
    use_image(lab, "second");
    lab.kiln(&["rebuild", "--detach", "--max-unavailable", "1", "--command", "sleep 1"]);
    let mut most = 0;
    wait("the first node is done", || {
        let steps = steps(lab);
        most = most.max(steps.values().filter(|step| is_in_flight(step)).count());
        steps.values().any(|step| step == "done")
    });
    assert_eq!(most, 1, "more than one node at a time");

    lab.kiln(&["rebuild", "pause"]);
    assert!(!lab.try_kiln(&["rebuild", "pause"]).status.success(), "paused twice");
    wait("nothing is in flight", || !steps(lab).values().any(|step| is_in_flight(step)));
    let done = |lab: &mut Lab| steps(lab).values().filter(|step| *step == "done").count();
    let at_pause = done(lab);
    assert!(at_pause < COMPUTE.len(), "all are done already");
    let jobs = lab.on("control", &["squeue", "--all", "--noheader", "--partition=rebuild"]);
    assert_eq!(jobs, "", "a paused rollout has jobs");
    // The nodes that wait are in service meanwhile.
    let id = lab.submit("--nodes=2 --partition=standard", "true");
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(done(lab), at_pause);

    lab.kiln(&["rebuild", "resume"]);
    wait("the next node has begun", || {
        steps(lab).values().any(|step| step == "rebuilding" || step == "booting")
    });
    lab.kiln(&["rebuild", "abort"]);
    let report = lab.watch();
    assert_eq!(report["state"], "aborted", "{report}");
    assert_eq!(report["failed"], 0, "{report}");
    for node in report["nodes"].as_array().expect("nodes") {
        let expected = if node["step"] == "done" { "second" } else { old.as_str() };
        assert_eq!(which_image(lab, node["node"].as_str().expect("a name")), expected, "{node}");
    }
    assert_eq!(out_of_service(lab), "");
}

/// A node whose bundle is not on the share says so, keeps trying, and joins when it is there.
pub fn bundle_missing(lab: &mut Lab) {
    let (bundle, away) = ("/srv/kiln/share/bundles/extra-1.age", "/srv/kiln/share/extra-1.away");
    lab.on("control", &["mv", bundle, away]);
    lab.kiln(&["rebuild", "--detach", "--force", "--nodes", "extra-1", "--command", "true"]);
    let said = |lab: &mut Lab| {
        let journal = lab.try_kiln(&["ssh", "extra-1", "journalctl", "-b", "-o", "cat", "-u", "kiln-node"]);
        String::from_utf8_lossy(&journal.stdout).matches("the share has no bundle for this node").count()
    };
    wait("the node says what it waits for, and tries again", || said(lab) >= 2);
    let console = lab.kiln(&["console", "extra-1", "--lines", "500"]);
    assert!(
        console.contains("kiln: the share has no bundle for this node, next attempt in 1 s"),
        "{console}"
    );
    let slurmd = ["ssh", "extra-1", "systemctl", "--quiet", "is-active", "slurmd"];
    assert!(!lab.try_kiln(&slurmd).status.success(), "it joined without its configuration");
    lab.on("control", &["mv", away, bundle]);
    assert_eq!(lab.watch()["done"], 1);
    assert_eq!(out_of_service(lab), "");
}

/// Jobs in a user's name, where that user may submit; elsewhere the refusal says why.
pub fn as_a_user(lab: &mut Lab) {
    let refused = lab.try_kiln(&["rebuild", "--user", "demo", "--no-reboot"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && words.contains("is for root alone"), "{words}");
    let refused = lab.try_kiln(&["rebuild", "standard", "--user", "demo", "--force"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && words.contains("may not have nodes rebooted"), "{words}");
    let refused = lab.try_kiln(&["rebuild", "standart"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && words.contains("Partition standart not found"), "{words}");

    let arguments =
        ["rebuild", "standard", "--user", "demo", "--no-reboot", "--force", "--job-name", "dry-NODE"];
    let report = lab.json(&arguments);
    assert_eq!((&report["done"], &report["failed"]), (&2.into(), &0.into()), "{report}");
    let records = |lab: &mut Lab| {
        lab.on(
            "control",
            &[
                "sacct",
                "-aXnP",
                "-S",
                "now-2hours",
                "--name=dry-standard-0,dry-standard-1",
                "-o",
                "user,partition,state",
            ],
        )
    };
    wait("the jobs are in the records", || {
        records(lab) == "demo|standard|COMPLETED\ndemo|standard|COMPLETED"
    });
}

fn is_in_flight(step: &str) -> bool {
    !matches!(step, "pending" | "done" | "failed" | "skipped")
}

/// Nodes that take no jobs, with their reasons.
pub fn out_of_service(lab: &mut Lab) -> String {
    let sinfo = ["sinfo", "--noheader", "--Node", "--format=%N %T %E", "--partition=standard,extra"];
    let text = lab.on("control", &sinfo);
    // A node that the scheduler keeps for a job to come is planned.
    let serves =
        |line: &&str| matches!(line.split(' ').nth(1), Some("idle" | "planned" | "mixed" | "allocated"));
    text.lines().filter(|line| !serves(line)).collect::<Vec<_>>().join("\n")
}
