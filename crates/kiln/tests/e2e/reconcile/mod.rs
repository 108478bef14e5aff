//! What the reconciler is for: every kind of disagreement between Slurm and the cloud, provoked for real and healed.

mod lost;
mod told;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use kiln_wire::labels;
use serde_json::Value;

pub use lost::*;
pub use told::*;

use crate::cluster_dir::printed;
use crate::lab::{Lab, wait};

const OFF: &str = "IDLE+CLOUD+POWERED_DOWN";
const UP: &str = "IDLE+CLOUD";

/// Rules that had something to tell people.
static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Two fixed nodes, four that come and go, and a group of which one is always there. Slurm takes no node back by itself
/// that was set down or rebooted.
pub fn raise(lab: &mut Lab) {
    let file = lab.example();
    let file = file
        .replace(
            "[compute.extra]\nnodes = \"extra-[0-1]\"\nimage = \"default\"\n",
            "[compute.burst]\nnodes = \"burst-[0-3]\"\nimage = \"default\"\nelastic = { idle = \"1h\" }\n\n\
             [compute.kept]\nnodes = \"kept-[0-1]\"\nimage = \"default\"\nelastic = { idle = \"1h\", min = 1 }\n",
        )
        .replace("KillWait = 30\n", "KillWait = 30\nMinJobAge = 3600\nResumeTimeout = 120\nSuspendTimeout = 5\nSlurmdTimeout = 60\nReturnToService = 1\n")
        + "\n[reconcile]\nevery = \"2s\"\ngrace = \"5s\"\nnewcomer = \"15s\"\npause = \"40s\"\n\
           failures = 2\n";
    lab.write_file(&file);
    lab.kiln(&["up"]);
    healthy(lab);
    // Nodes say which bundle they have.
    wait("the nodes tell their bundles", || {
        lab.on("control", &["scontrol", "show", "node", "standard-0"]).contains("Extra=kiln-bundle:")
    });
}

fn compute(node: &str) -> [(&'static str, &str); 2] {
    [(labels::ROLE, "compute"), (labels::NODE, node)]
}

fn field(lab: &mut Lab, node: &str, key: &str) -> String {
    let text = lab.on("control", &["scontrol", "show", "node", "--oneliner", node]);
    let value = |word: &str| word.strip_prefix(key)?.strip_prefix('=').map(String::from);
    text.split_whitespace().find_map(value).unwrap_or_default()
}

fn state(lab: &mut Lab, node: &str) -> String {
    field(lab, node, "State")
}

fn update(lab: &mut Lab, user: &str, node: &str, change: &[&str]) {
    let name = format!("nodename={node}");
    let words = ["runuser", "-u", user, "--", "scontrol", "update", &name];
    lab.on("control", &words.iter().chain(change).copied().collect::<Vec<_>>());
}

/// Waits for the cure and tells how long it took.
fn healed(what: &str, is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    wait(what, is_so);
    println!("     healed after {:.1} s: {what}", start.elapsed().as_secs_f64());
}

fn is_in(lab: &mut Lab, node: &str, wanted: &str) -> bool {
    state(lab, node) == wanted
}

/// Powers a node up, by hand.
fn power_up(lab: &mut Lab, node: &str) {
    update(lab, "root", node, &["state=POWER_UP"]);
    wait("the node is up", || is_in(lab, node, UP));
}

/// Of a node, or of all.
pub fn events(lab: &mut Lab, node: &str) -> Vec<Value> {
    let words: Vec<&str> =
        ["events", "--most", "10000", node].into_iter().filter(|word| !word.is_empty()).collect();
    lab.json(&words).as_array().cloned().expect("events")
}

/// The rule by which the reconciler did something, and what it had found.
fn why(event: &Value) -> Option<(&str, &str)> {
    event["why"].as_str()?.split_once(": ")
}

/// The reconciler did something to a node by a rule.
fn acted(lab: &mut Lab, node: &str, rule: &str) -> bool {
    times_acted(lab, node, rule) > 0
}

fn times_acted(lab: &mut Lab, node: &str, rule: &str) -> usize {
    events(lab, node).iter().filter(|e| why(e).is_some_and(|(by, _)| by == rule)).count()
}

/// What kilnd finds about a node.
fn finding(lab: &mut Lab, node: &str) -> String {
    let fleet = ["kiln", "--json", "fleet", "health"];
    let health: Value = serde_json::from_str(&lab.on("control", &fleet)).expect("JSON");
    let found = health["nodes"].as_array().into_iter().flatten().find(|n| n["node"] == node);
    found.and_then(|n| n["finding"]["rule"].as_str()).unwrap_or_default().to_string()
}

/// Waits until kilnd reports a node by a rule that leaves the rest to people.
fn reported_as(lab: &mut Lab, node: &str, rule: &str) {
    healed(&format!("{node} is reported as {rule}"), || finding(lab, node) == rule);
    REPORTED.lock().expect("no panic in between").insert(rule.into());
}

fn verdict(lab: &mut Lab, node: &str) -> String {
    let status = lab.json(&["status"]);
    let found = status["nodes"].as_array().into_iter().flatten().find(|n| n["node"] == node);
    found.and_then(|n| n["verdict"].as_str()).unwrap_or_default().to_string()
}

pub fn healthy(lab: &mut Lab) {
    let mut last = Value::Null;
    let all_ok = || {
        last = lab.json(&["status"]);
        let ok = |n: &Value| n["verdict"] == "ok";
        last["nodes"].as_array().is_some_and(|nodes| nodes.iter().all(ok))
            && last["strays"] == serde_json::json!([])
    };
    wait("all nodes are ok", all_ok);
}

/// kilnd has looked twice more.
pub fn looked(lab: &mut Lab) {
    let look = |lab: &mut Lab| {
        let fleet = ["kiln", "--json", "fleet", "health"];
        let health: Value = serde_json::from_str(&lab.on("control", &fleet)).expect("JSON");
        health["last_look"].clone()
    };
    for _ in 0..2 {
        let before = look(lab);
        wait("kilnd looks", || look(lab) != before);
    }
}

/// Slurm gives nodes up sooner while something is looked at. All the time it would also give up those that a busy machine is
/// slow to run.
fn impatiently(lab: &mut Lab, look: impl FnOnce(&mut Lab)) {
    let file = lab.read_file();
    let sooner = |file: &str, of: &str| file.replace(of, "Timeout = 30\n");
    lab.write_file(&sooner(&sooner(&file, "Timeout = 60\n"), "Timeout = 120\n"));
    lab.kiln(&["configure"]);
    look(lab);
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    healthy(lab);
}

/// An administrator changes slurm.conf by hand; `kiln configure` takes it back.
fn by_hand(lab: &mut Lab, change: &str) {
    lab.on("control", &["sed", "-i", change, "/etc/slurm/slurm.conf"]);
    lab.on("control", &["systemctl", "restart", "slurmctld"]);
    wait("Slurm answers", || lab.try_on("control", &["scontrol", "ping"]).status.success());
}

/// Rules about what the local cloud does not have, whose instances cannot be paused, and about what this release of Slurm does not do:
/// 24.11 leaves reasons on nodes that it has powered down, 22.05 does not.
const ELSEWHERE: [&str; 2] = ["held-instance", "left-reason"];

/// No row of the table went without being provoked.
pub fn every_rule(lab: &mut Lab) {
    let mut at_work = REPORTED.lock().expect("no panic in between").clone();
    at_work.extend(events(lab, "").iter().filter_map(|e| Some(why(e)?.0.to_string())));
    let idle: Vec<&str> = kiln_fleet::reconcile::RULES
        .iter()
        .map(|rule| rule.name)
        .filter(|name| !at_work.contains(*name) && !ELSEWHERE.contains(name))
        .collect();
    assert_eq!(idle, Vec::<&str>::new());
}
