//! What comes over the cluster. Each fault says what it did, and answers for the jobs that it killed itself.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::checker::now;
use super::{Campaign, Drain, ROOT, SAVED_WITHIN, STATE};
use crate::behind::cloud;
use crate::daemon::daemon_pid;
use crate::instance;
use crate::lab::order;

type Fault = (&'static str, fn(&mut Campaign) -> String);

/// Those that stand here twice come twice as often.
pub const FAULTS: &[Fault] = &[
    ("kilnd is killed", kilnd_killed),
    ("kilnd is killed", kilnd_killed),
    ("kilnd is away for a while", kilnd_away),
    ("slurmctld is killed", slurmctld_killed),
    ("slurmctld is restarted", slurmctld_restarted),
    ("slurmdbd is killed", slurmdbd_killed),
    ("the database is killed", database_killed),
    ("the cloud's daemon is killed", cloud_killed),
    ("slurmd is killed", slurmd_killed),
    ("an instance is deleted", instance_deleted),
    ("an instance is stopped", instance_stopped),
    ("an instance stands still", instance_frozen),
    ("the cloud throttles", throttled),
    ("the cloud is out of order", out_of_order),
    ("answers of the cloud get lost", answers_lost),
    ("the cloud is slow", slow),
    ("the cloud's lists lack instances", hidden),
    ("the cloud's lists lack instances", hidden),
    ("a disk of control is full", disk_full),
    ("a disk of control is full", disk_full),
    ("an instance cannot be built", build_fails),
    ("a node loses the share", share_lost),
    ("an administrator drains a node", drained),
    ("an administrator drains a node", drained),
    ("an administrator resumes a node", resumed),
    ("an administrator reboots a node", rebooted),
    ("an administrator reserves a node", reserved),
    ("kiln up", up),
    ("kiln up is interrupted", up_interrupted),
    ("kiln configure", configure),
    ("a new image is rolled out", new_image),
    ("a new image is rolled out", new_image),
    ("the rollout is aborted", aborted),
];

fn seconds(campaign: &mut Campaign, low: u64, high: u64) -> Duration {
    Duration::from_millis(campaign.random.between(low * 1000, high * 1000))
}

fn pause(campaign: &mut Campaign, low: u64, high: u64) {
    sleep(seconds(campaign, low, high));
}

fn unit(campaign: &mut Campaign, words: &[&str]) {
    let all: Vec<&str> = ["systemctl"].iter().chain(words).copied().collect();
    campaign.lab.try_on("control", &all);
}

fn kilnd_killed(campaign: &mut Campaign) -> String {
    unit(campaign, &["kill", "--signal=KILL", "kilnd"]);
    String::new()
}

fn kilnd_away(campaign: &mut Campaign) -> String {
    unit(campaign, &["stop", "kilnd"]);
    pause(campaign, 2, 10);
    unit(campaign, &["start", "kilnd"]);
    String::new()
}

fn slurmctld_killed(campaign: &mut Campaign) -> String {
    unit(campaign, &["kill", "--signal=KILL", "slurmctld"]);
    let at = now();
    // It learns of what ended meanwhile a moment later.
    let saved = match campaign.controller.full {
        Some((from, to)) if at <= to + SAVED_WITHIN => from - SAVED_WITHIN,
        _ => at - SAVED_WITHIN,
    };
    campaign.excuses.forgotten.push((saved, at + 10));
    campaign.drains.retain(|_, drain| drain.at < saved);
    campaign.controller.ended = Some(at);
    String::new()
}

/// It saves its state when it is told to stop, and for some seconds after that still takes word of what has ended.
fn slurmctld_restarted(campaign: &mut Campaign) -> String {
    let stopped = now();
    unit(campaign, &["restart", "slurmctld"]);
    campaign.excuses.forgotten.push((stopped, now() + 10));
    campaign.controller.ended = Some(now());
    String::new()
}

fn slurmdbd_killed(campaign: &mut Campaign) -> String {
    // systemd starts it again.
    unit(campaign, &["kill", "--signal=KILL", "slurmdbd"]);
    String::new()
}

fn database_killed(campaign: &mut Campaign) -> String {
    unit(campaign, &["kill", "--signal=KILL", "mariadb"]);
    pause(campaign, 1, 4);
    unit(campaign, &["start", "mariadb"]);
    String::new()
}

fn cloud_killed(campaign: &mut Campaign) -> String {
    let Some(pid) = daemon_pid() else {
        return "it is not there".into();
    };
    let _ = Command::new("kill").args(["-9", &pid]).status();
    pause(campaign, 1, 6);
    // The next who asks from this host brings it back.
    campaign.lab.try_kiln(&["inventory"]);
    String::new()
}

/// A compute node that has a running system.
fn some_node(campaign: &mut Campaign) -> Option<String> {
    let there: Vec<String> = super::NODES
        .iter()
        .filter(|node| instance::command_on(node, &["true"]).is_some())
        .map(|node| (*node).to_string())
        .collect();
    (!there.is_empty()).then(|| campaign.random.pick(&there).clone())
}

fn slurmd_killed(campaign: &mut Campaign) -> String {
    let Some(node) = some_node(campaign) else { return "nobody is there".into() };
    let at = now();
    campaign.lab.try_on(&node, &["systemctl", "kill", "--signal=KILL", "--kill-whom=main", "slurmd"]);
    // What was being launched there is lost.
    campaign.excuse_starts(&node, at - 3, at + 5);
    node
}

fn instance_deleted(campaign: &mut Campaign) -> String {
    let Some(node) = some_node(campaign) else { return "nobody is there".into() };
    campaign.excuse_jobs_on(&node);
    if let Some(id) = instance::id_of(&node) {
        let _ = cloud(async |cloud| Ok(cloud.delete(&id).await));
    }
    campaign.excuse_jobs_on(&node);
    campaign.excuse_starts(&node, now() - 3, now() + 30);
    node
}

fn instance_stopped(campaign: &mut Campaign) -> String {
    let Some(node) = some_node(campaign) else { return "nobody is there".into() };
    campaign.excuse_jobs_on(&node);
    if let Some(id) = instance::id_of(&node) {
        let _ = cloud(async |cloud| Ok(cloud.stop(&id, true).await));
    }
    campaign.excuse_jobs_on(&node);
    campaign.excuse_starts(&node, now() - 3, now() + 30);
    node
}

/// Shorter than Slurm's patience: no job may suffer.
fn instance_frozen(campaign: &mut Campaign) -> String {
    let Some(node) = some_node(campaign) else { return "nobody is there".into() };
    let Some(cgroup) = instance::id_of(&node).and_then(|id| instance::cgroup(&id)) else {
        return "nobody is there".into();
    };
    let switch = cgroup.join("cgroup.freeze");
    let at = now();
    let _ = fs::write(&switch, "1");
    pause(campaign, 3, 12);
    let _ = fs::write(&switch, "0");
    // A launch that nobody answers in time is Slurm's to give up.
    campaign.excuse_starts(&node, at - 3, now() + 3);
    node
}

fn throttled(campaign: &mut Campaign) -> String {
    let times = campaign.random.between(1, 6);
    let operation = *campaign.random.pick(&["create", "rebuild", "reboot", "delete"]);
    order(&format!(r#"{{"{operation}": {{"fail": {times}, "status": 429, "retry_after": 1}}}}"#));
    format!("{operation}, {times} times")
}

fn out_of_order(campaign: &mut Campaign) -> String {
    let times = campaign.random.between(1, 8);
    let operation = *campaign.random.pick(&["create", "rebuild", "reboot", "delete", "list"]);
    // To this cloud 500 means that it tried and cannot: only reading is then tried again.
    let status = if operation == "list" { 500 } else { 503 };
    order(&format!(r#"{{"{operation}": {{"fail": {times}, "status": {status}}}}}"#));
    format!("{operation}, {times} times {status}")
}

fn answers_lost(campaign: &mut Campaign) -> String {
    let times = campaign.random.between(1, 4);
    let requests =
        ["POST /v1/instances", "GET /v1/instances", "cut POST /v1/instances", "cut GET /v1/instances"];
    let request = *campaign.random.pick(&requests);
    order(&format!(r#"{{"{request}": {{"fail": {times}, "status": 503}}}}"#));
    format!("{request}, {times} times")
}

fn slow(campaign: &mut Campaign) -> String {
    let times = campaign.random.between(2, 8);
    let operation = *campaign.random.pick(&["create", "rebuild", "reboot", "delete", "list", "get"]);
    order(&format!(r#"{{"slow {operation}": {{"fail": {times}}}}}"#));
    format!("{operation}, {times} times")
}

/// As Nova does with the servers of a cell that does not answer. Some cannot be asked for by their id either.
fn hidden(campaign: &mut Campaign) -> String {
    let (times, silent) = (campaign.random.between(3, 30), campaign.random.between(0, 5));
    let first = usize::try_from(campaign.random.between(0, super::NODES.len() as u64 - 1)).expect("few");
    let many = usize::try_from(campaign.random.between(1, 4)).expect("few");
    let nodes: Vec<&str> = super::NODES.iter().cycle().skip(first).take(many).copied().collect();
    let hide = nodes.iter().map(|node| format!(r#""hide {node}": {{"fail": {times}}}"#));
    let show = format!(r#""get": {{"fail": {silent}, "status": 503}}"#);
    order(&format!("{{{}}}", hide.chain([show]).collect::<Vec<_>>().join(",")));
    format!("{}, {times} times", nodes.join(" "))
}

/// Hooks and requests come meanwhile, and cannot be written down.
fn disk_full(campaign: &mut Campaign) -> String {
    let (name, places) = *campaign.random.pick(&[
        ("the state volume", &[STATE][..]),
        ("the root disk", &[ROOT]),
        ("the state volume and the root disk", &[STATE, ROOT]),
    ]);
    let files: Vec<String> = places.concat().iter().map(|place| format!("{place}/fills-the-disk")).collect();
    let from = now();
    for file in &files {
        campaign.lab.try_on("control", &["dd", "if=/dev/zero", &format!("of={file}"), "bs=64k"]);
    }
    pause(campaign, 3, 15);
    let words: Vec<&str> = ["rm"].into_iter().chain(files.iter().map(String::as_str)).collect();
    campaign.lab.on("control", &words);
    if places.contains(&STATE) {
        campaign.controller.full = Some((from, now()));
    }
    if places.len() > 1 {
        // Slurm asked for nodes, and nobody could write that down.
        campaign.excuses.no_room.push((from - 5, now() + 5));
    }
    name.into()
}

fn build_fails(campaign: &mut Campaign) -> String {
    order(r#"{"build": {"fail": 1, "status": 500, "message": "no valid host was found"}}"#);
    // Jobs that were to run on what cannot be made begin elsewhere, those that may begin once only do not.
    campaign.excuses.no_room.push((now() - 5, now() + 60));
    String::new()
}

fn share_lost(campaign: &mut Campaign) -> String {
    let Some(node) = some_node(campaign) else { return "nobody is there".into() };
    campaign.lab.try_on(&node, &["umount", "--lazy", kiln_wire::paths::SHARE]);
    node
}

fn scontrol(campaign: &mut Campaign, words: &[&str]) -> bool {
    let all: Vec<&str> = ["timeout", "10", "scontrol"].iter().chain(words).copied().collect();
    campaign.lab.try_on("control", &all).status.success()
}

fn drained(campaign: &mut Campaign) -> String {
    let node = (*campaign.random.pick(super::NODES)).to_string();
    if campaign.drains.contains_key(&node) {
        return resumed(campaign);
    }
    let reason = format!("bad fan {}", campaign.at);
    let name = format!("nodename={node}");
    // Slurm itself drops a drain that comes while it powers the node up or down or reboots it, when that ends or takes too long.
    let is_settled = (campaign.state_of(&node))
        .is_some_and(|(state, _)| !["POWERING", "POWER_", "REBOOT"].iter().any(|sign| state.contains(sign)));
    if !is_settled {
        // Slurm takes back the jobs that wait for it to come up.
        campaign.excuse_jobs_on(&node);
    }
    if scontrol(campaign, &["update", &name, "state=drain", &format!("reason={reason}")]) && is_settled {
        campaign.drains.insert(node.clone(), Drain { reason, at: now() });
    }
    node
}

fn resumed(campaign: &mut Campaign) -> String {
    let Some(node) = campaign.drains.keys().next().cloned() else { return "none is drained".into() };
    // Slurm may refuse it and end the drain nevertheless, for a node that it has not heard from since it was started.
    scontrol(campaign, &["update", &format!("nodename={node}"), "state=resume"]);
    campaign.drains.remove(&node);
    node
}

fn rebooted(campaign: &mut Campaign) -> String {
    let node = (*campaign.random.pick(super::NODES)).to_string();
    if campaign.drains.contains_key(&node) {
        // A reboot that ends in service would lift the administrator's own drain.
        return format!("not {node}, which is drained");
    }
    scontrol(campaign, &["reboot", "ASAP", "nextstate=resume", "reason=new kernel", &node]);
    node
}

fn reserved(campaign: &mut Campaign) -> String {
    let node = (*campaign.random.pick(super::NODES)).to_string();
    let name = format!("reservationname=maintenance-{}", campaign.at);
    let nodes = format!("nodes={node}");
    scontrol(
        campaign,
        &[
            "create",
            "reservation",
            &name,
            "starttime=now",
            "duration=1",
            "flags=ignore_jobs",
            "users=root",
            &nodes,
        ],
    );
    node
}

fn up(campaign: &mut Campaign) -> String {
    campaign.kiln_beside(&["up", "--yes"]);
    String::new()
}

fn up_interrupted(campaign: &mut Campaign) -> String {
    campaign.kiln_beside(&["up", "--yes"]);
    pause(campaign, 1, 8);
    let signal = *campaign.random.pick(&["INT", "KILL"]);
    campaign.signal_kiln(signal);
    signal.into()
}

fn configure(campaign: &mut Campaign) -> String {
    campaign.kiln_beside(&["configure"]);
    String::new()
}

fn new_image(campaign: &mut Campaign) -> String {
    let image = *campaign.random.pick(super::IMAGES);
    campaign.choose_image(image);
    campaign.kiln_beside(&["up", "--yes"]);
    campaign.end_kiln();
    campaign.lab.try_kiln(&["rebuild", "--detach"]);
    image.into()
}

fn aborted(campaign: &mut Campaign) -> String {
    campaign.lab.try_kiln(&["rebuild", "abort"]);
    String::new()
}
