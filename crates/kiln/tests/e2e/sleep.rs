//! A whole cluster goes to sleep and wakes up: no job is harmed, nothing is lost, and kilnd leaves stopped nodes alone.

use kiln_cloud::InstanceStatus;
use serde_json::Value;

use crate::behind::cloud;
use crate::cluster_dir::printed;
use crate::cut::interrupt;
use crate::lab::{Lab, wait};
use crate::reconcile::{events, healthy};

const UNTIL_TOLD: &str = "until test -e may-sleep; do sleep 0.2; done; echo whole";

fn reservation(lab: &Lab) -> String {
    lab.on("control", &["scontrol", "show", "reservation", "--oneliner"])
}

/// Node, id and state of every instance.
fn instances() -> Vec<(String, String, InstanceStatus)> {
    let all = cloud(async |cloud| cloud.instances("e2e").await);
    let mut all: Vec<_> = all.into_iter().map(|i| (i.name, i.id, i.status)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn volumes() -> Vec<(String, String)> {
    let all = cloud(async |cloud| cloud.volumes("e2e").await);
    all.into_iter().map(|volume| (volume.name, volume.id)).collect()
}

/// The records of the user's jobs that have ended.
fn history(lab: &Lab) -> String {
    lab.on(
        "control",
        &["sacct -a -nXP -S 2026-01-01 -o jobid,user,state,exitcode,start,end | grep 'demo|COMPLETED' || true"],
    )
}

fn refused(lab: &Lab, arguments: &[&str], because: &str) {
    let output = lab.try_kiln(arguments);
    let said = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(because) && said.contains("`kiln start`"), "{arguments:?}: {said}");
}

/// Fixed nodes, one of which an administrator has drained, elastic ones, and one of those that is to stay up.
pub fn night(lab: &mut Lab) {
    // Of the scenario before.
    let is_there = || instances().iter().any(|(name, ..)| name == "burst-3");
    if is_there() {
        lab.on("control", &["scontrol", "update", "nodename=burst-3", "state=power_down"]);
        wait("burst-3 is gone", || !is_there());
    }
    lab.on("control", &["scontrol", "update", "nodename=standard-1", "state=drain", "reason=bad fan"]);
    lab.as_user("login-0", "rm -f may-sleep");
    let burst = lab.submit("--partition=burst --nodelist=burst-0 --output=/dev/null", "true");
    lab.wait_job(&burst, "COMPLETED");
    let running = lab.submit("--nodelist=standard-0 --time=30 --output=night.%j", UNTIL_TOLD);
    lab.wait_job(&running, "RUNNING");
    let waiting = lab.submit("--nodelist=standard-0 --exclusive --output=night.%j", "echo whole");
    let (before, on_volumes) = (instances(), volumes());
    assert!(before.iter().any(|(name, ..)| name == "burst-0"), "{before:?}");

    let shown = lab.kiln(&["stop", "--dry-run"]);
    for line in [
        "= no job starts; 1 job waits and stays in the queue",
        &format!("! runs: job {running} of demo"),
        "- delete burst-0,kept-0 (2 nodes), created again when jobs need them",
        "~ stop login-0,standard-[0-1] (3 nodes)",
        "~ stop control, last",
        "= e2e-backup, e2e-home, e2e-share, e2e-state stay",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert_eq!(lab.try_kiln(&["stop"]).status.code(), Some(2), "it must be agreed to");
    assert!(reservation(lab).contains("No reservations"), "nothing was agreed to");

    // Jobs that run are let be, others do not start, and all of it can be given up.
    let output = lab.try_kiln(&["stop", "--yes"]);
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    assert!(printed(&output).contains(&format!("job {running} of demo")), "{}", printed(&output));
    assert_eq!(lab.json(&["status"])["sleep"], "closing");
    for verb in [&["up"][..], &["plan"], &["configure"], &["rebuild"]] {
        refused(lab, verb, "is about to sleep");
    }
    let late = lab.submit("--partition=burst --nodelist=burst-0 --output=/dev/null", "true");
    wait("the job waits for the cluster", || lab.job(&late, "Reason").contains("Reserv"));
    lab.kiln(&["start"]);
    assert!(reservation(lab).contains("No reservations"), "{}", reservation(lab));
    lab.wait_job(&late, "COMPLETED");
    assert_eq!(lab.job(&running, "JobState"), "RUNNING");

    let mended = events(lab, "standard-0").len() + events(lab, "standard-1").len();
    // Waiting can be ended, and taken up again.
    let (code, said) = interrupt(lab, &["stop", "--yes", "--wait"], "waiting for job");
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(lab.job(&running, "JobState"), "RUNNING");
    std::thread::scope(|scope| {
        let finished = scope.spawn(|| lab.kiln(&["stop", "--yes", "--wait"]));
        lab.as_user("login-0", "touch may-sleep");
        finished.join().expect("stop ends well");
    });

    // What was fixed is off, what was elastic is gone, what holds data is there.
    let asleep = instances();
    let fixed = before.iter().filter(|(name, ..)| !name.starts_with("burst") && !name.starts_with("kept"));
    let off: Vec<_> =
        fixed.map(|(name, id, _)| (name.clone(), id.clone(), InstanceStatus::Stopped)).collect();
    assert_eq!(asleep, off);
    assert_eq!(volumes(), on_volumes);
    let status = lab.json(&["status"]);
    assert_eq!(status["sleep"], "asleep");
    assert!(status["nodes"].as_array().expect("nodes").iter().all(|n| n["verdict"] == "asleep"), "{status}");
    assert!(lab.kiln(&["doctor"]).contains("`kiln start` wakes it"));
    for verb in [&["up"][..], &["plan"], &["apply"], &["configure"], &["rebuild"], &["backup", "now"]] {
        refused(lab, verb, "is asleep since");
    }
    lab.kiln(&["stop"]);
    assert_eq!(instances(), asleep, "nothing was started or made");

    // Morning, with an interruption.
    let (code, said) = interrupt(lab, &["start"], "control: Slurm's daemons run");
    assert_eq!(code, Some(130), "{said}");
    let started = lab.json(&["start"]);
    assert_eq!(started["out_of_service"], serde_json::json!(["standard-1"]), "{started}");
    for id in [&running, &waiting] {
        lab.wait_job(id, "COMPLETED");
        assert_eq!(lab.as_user("login-0", &format!("cat night.{id}")), "whole");
        assert_eq!(lab.job(id, "Restarts"), "0");
    }
    let record = |id: &String| history(lab).lines().any(|line| line.starts_with(&format!("{id}|")));
    wait("the accounts have every job", || [&burst, &late, &running, &waiting].into_iter().all(record));
    let drained = lab.on("control", &["scontrol", "show", "node", "--oneliner", "standard-1"]);
    assert!(drained.contains("+DRAIN") && drained.contains("Reason=bad fan"), "{drained}");
    assert_eq!(
        events(lab, "standard-0").len() + events(lab, "standard-1").len(),
        mended,
        "kilnd has done something: {:?}",
        events(lab, "")
    );
    let again = lab.json(&["start"]);
    assert_eq!(again["started"], serde_json::json!([]), "{again}");
    let back: Vec<String> = instances().into_iter().map(|(_, id, _)| id).collect();
    assert!(off.iter().all(|(_, id, _)| back.contains(id)), "nothing was recreated");

    lab.on("control", &["scontrol", "update", "nodename=standard-1", "state=resume"]);
    healthy(lab);
    at_once(lab);
}

/// Without waiting: what may run again waits in the queue, what may not is ended.
fn at_once(lab: &mut Lab) {
    lab.as_user("login-0", "rm -f may-sleep");
    let again = lab.submit("--nodelist=standard-0 --requeue --output=night.%j", UNTIL_TOLD);
    let once = lab.submit("--nodelist=standard-1 --no-requeue --output=/dev/null", UNTIL_TOLD);
    for id in [&again, &once] {
        lab.wait_job(id, "RUNNING");
    }
    let asked = printed(&lab.try_kiln(&["stop", "--now"]));
    assert!(asked.contains(&format!("requeueing or ending 2 jobs ({again}, {once})")), "{asked}");
    let stopped: Value = lab.json(&["stop", "--now", "--yes"]);
    assert_eq!((&stopped["asleep"], &stopped["waits_for"]), (&true.into(), &serde_json::json!([])));
    assert!(stopped["backup"].is_string(), "{stopped}");
    lab.kiln(&["start"]);
    lab.as_user("login-0", "touch may-sleep");
    assert_eq!(lab.job(&once, "JobState"), "CANCELLED");
    // Slurm lets a requeued job wait for two minutes.
    lab.on("control", &["scontrol", "update", &format!("jobid={again}"), "starttime=now"]);
    lab.wait_job(&again, "COMPLETED");
    assert_eq!(lab.job(&again, "Restarts"), "1");
    healthy(lab);
}
