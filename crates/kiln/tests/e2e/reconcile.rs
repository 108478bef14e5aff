//! What the reconciler is for: every kind of disagreement between Slurm and the cloud, provoked for real and healed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use kiln_cloud::{Cloud, Instance, InstanceStatus, Labels, NewInstance, Rebuild};
use kiln_wire::{Attachment, labels};
use serde_json::Value;

use crate::cluster_dir::printed;
use crate::lab::{Lab, cloud_root, no_more_faults, order, wait};
use crate::rollout::use_image;

const OFF: &str = "IDLE+CLOUD+POWERED_DOWN";
const UP: &str = "IDLE+CLOUD";
const CLUSTER: &str = "e2e";

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
        .replace("KillWait = 30\n", "KillWait = 30\nResumeTimeout = 45\nSuspendTimeout = 5\nSlurmdTimeout = 30\nReturnToService = 1\n")
        + "\n[reconcile]\nevery = \"2s\"\ngrace = \"5s\"\nnewcomer = \"15s\"\npause = \"20s\"\n\
           failures = 2\n";
    lab.write_file(&file);
    lab.kiln(&["up"]);
    healthy(lab);
    // Nodes say which bundle they have.
    wait("the nodes tell their bundles", || {
        lab.on("control", &["scontrol", "show", "node", "standard-0"]).contains("Extra=kiln-bundle:")
    });
}

/// Does something behind Kiln's back.
pub fn cloud<T>(work: impl AsyncFnOnce(&Cloud) -> kiln_cloud::Result<T>) -> T {
    let cloud = Cloud::local_with(cloud_root(), env!("CARGO_BIN_EXE_kiln").into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work(&cloud)).expect("the cloud does it")
}

fn instances(node: &str) -> Vec<Instance> {
    let all = cloud(async |cloud| cloud.instances(CLUSTER).await);
    all.into_iter().filter(|i| i.labels.get(labels::NODE).is_some_and(|name| name == node)).collect()
}

/// The instance of a node that has one.
pub fn only(node: &str) -> Instance {
    let mut all = instances(node);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Another instance like a fixed node's, with other labels.
pub fn make(name: &str, labels: &[(&str, &str)]) -> Instance {
    let model = only("standard-1");
    let network = cloud(async |cloud| cloud.networks(CLUSTER).await).remove(0).id;
    let labels = [(labels::CLUSTER, CLUSTER)].iter().chain(labels);
    let new = NewInstance {
        name: name.into(),
        image: model.image.expect("an image"),
        flavor: model.flavor,
        public: false,
        zone: None,
        network,
        address: None,
        security_groups: vec![],
        user_data: "".into(),
        ssh_key: String::new(),
        labels: labels.map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect::<Labels>(),
        volumes: Vec::<Attachment>::new(),
        disk_gib: None,
    };
    cloud(async |cloud| cloud.create(vec![new]).await.remove(0))
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

pub fn instance_gone(lab: &mut Lab) {
    let job = lab.submit("--partition=burst --nodelist=burst-0 --requeue", "sleep 600");
    lab.wait_job(&job, "RUNNING");
    let id = only("burst-0").id;
    cloud(async |cloud| cloud.delete(&id).await);
    healed("the job of a node whose instance is gone is requeued", || lab.job(&job, "JobState") == "PENDING");
    healed("the node may be powered up again", || is_in(lab, "burst-0", OFF));
    assert_eq!(lab.job(&job, "Restarts"), "1");
    lab.on("control", &["scancel", &job]);
    assert!(acted(lab, "burst-0", "no-instance"));
    healthy(lab);

    // A rebuild job waits there for the end of a user's job.
    let job = lab.submit("--partition=standard --nodelist=standard-0 --no-requeue", "sleep 600");
    lab.wait_job(&job, "RUNNING");
    let rebuild = ["rebuild", "--force", "--nodes=standard-0"];
    lab.kiln(&[&rebuild[..], &["--detach"]].concat());
    let rollout = |lab: &Lab| lab.json(&["rebuild", "status"]);
    wait("its rebuild job waits", || rollout(lab)["nodes"][0]["step"] == "submitted");
    let id = only("standard-0").id;
    cloud(async |cloud| cloud.delete(&id).await);
    healed("the fixed node is set down in words", || {
        lab.on("control", &["sinfo", "-hN", "-n", "standard-0", "-o", "%T %E"])
            .starts_with("down* kiln: its instance is gone; kiln apply recreates it")
    });
    let gone = "its instance is gone; `kiln up` recreates it";
    healed("the rollout does not wait for it", || rollout(lab)["state"] == "done");
    let ended = |lab: &Lab, step: &str| {
        let node = rollout(lab)["nodes"][0].clone();
        assert_eq!((&node["step"], &node["reason"]), (&step.into(), &gone.into()), "{node}");
    };
    ended(lab, "failed");
    let skipped = lab.try_kiln(&rebuild);
    assert_eq!(skipped.status.code(), Some(1), "{skipped:?}");
    ended(lab, "skipped");
    lab.kiln(&["up", "--yes"]);
    healed("the fixed node with a new instance is in service", || is_in(lab, "standard-0", "IDLE"));
    assert!(acted(lab, "standard-0", "instance-back"));
    healthy(lab);
}

/// Leaves instances out of the cloud's lists from now on.
fn hide(nodes: &[&str]) {
    let faults: Vec<String> =
        nodes.iter().map(|node| format!(r#""hide {node}": {{"fail": 1000000}}"#)).collect();
    order(&format!("{{{}}}", faults.join(",")));
}

/// The cloud's list lacks instances that are there, one of them with a user's job on it.
pub fn incomplete_list(lab: &mut Lab) {
    let job = lab.submit("--partition=burst --nodelist=burst-0 --output=/dev/null", "sleep 600");
    lab.wait_job(&job, "RUNNING");
    looked(lab);
    let all = ["burst-0", "kept-0", "standard-0", "standard-1"];
    let acts = |lab: &mut Lab| all.map(|node| times_acted(lab, node, "no-instance"));
    let before = acts(lab);
    hide(&["burst-0"]);
    reported_as(lab, "burst-0", "unlisted");
    assert!(verdict(lab, "burst-0").starts_with("the cloud's list lacks its instance, which is there"));
    looked(lab);
    assert_eq!(lab.job(&job, "JobState"), "RUNNING");

    // Most of the cluster, and an instance that would be deleted otherwise.
    hide(&all);
    let lacks = "its list lacks the instances of 4 of 4 nodes (burst-0,kept-0,standard-[0-1])";
    wait("kilnd says that it does nothing", || {
        let all = lab.json(&["events", "--since", "5m"]);
        let said =
            |e: &Value| e["what"] == "look" && e["outcome"].as_str().is_some_and(|o| o.contains(lacks));
        all.as_array().expect("events").iter().any(said)
    });
    let status = lab.json(&["status"]);
    assert!(status["kilnd_error"].as_str().is_some_and(|e| e.contains(lacks)), "{status}");
    let page = lab.kiln(&["doctor", "standard-0"]);
    assert!(page.contains("cloud    cannot be relied on: its list lacks"), "{page}");
    looked(lab);
    assert_eq!(acts(lab), before);
    // Nor does the deploy host make them a second time.
    let plan = lab.json(&["plan"]);
    assert_eq!(plan["actions"], Value::Array(Vec::new()), "{plan}");
    no_more_faults();
    healthy(lab);
    assert_eq!((lab.job(&job, "JobState").as_str(), lab.job(&job, "Restarts").as_str()), ("RUNNING", "0"));
    lab.on("control", &["scancel", &job]);
    update(lab, "root", "burst-0", &["state=POWER_DOWN_FORCE"]);
    wait("it is off", || is_in(lab, "burst-0", OFF));
}

pub fn strays(lab: &mut Lab) {
    let foreign = make("someone", &[(labels::ROLE, "other")]);
    let is_there = |id: &str| cloud(async |cloud| cloud.instances(CLUSTER).await).iter().any(|i| i.id == id);
    // As `kiln apply` makes it for a file that `kiln configure` has yet to bring, and does not.
    let newcomer = make("ghost-0", &compute("ghost-0"));
    wait("kilnd waits for its node", || lab.json(&["status"])["strays"][0]["rule"] == "newcomer");
    healed("the instance whose node never came is gone", || !is_there(&newcomer.id));

    let stray = make("ghost-1", &compute("ghost-1"));
    // kilnd knows it from before the next file.
    wait("kilnd sees it", || lab.json(&["status"])["strays"][0]["rule"] == "newcomer");
    lab.edit("pause = \"20s\"", "pause = \"21s\"");
    lab.kiln(&["configure"]);
    healed("the stray instance is gone", || !is_there(&stray.id));
    let all = events(lab, "");
    let by = |rule: &str| all.iter().any(|e| why(e).is_some_and(|(by, _)| by == rule));
    assert!(by("newcomer") && by("stray"), "{all:#?}");
    assert!(is_there(&foreign.id), "what has other labels stays");
    cloud(async |cloud| cloud.delete(&foreign.id).await);
    healthy(lab);
}

pub fn down_without_instance(lab: &mut Lab) {
    order(r#"{"create": {"fail": 1, "status": 400, "message": "flavor is out of order"}}"#);
    update(lab, "root", "burst-1", &["state=POWER_UP"]);
    let words = ["sinfo", "-hN", "-n", "burst-1", "-p", "burst", "-o", "%E"];
    wait("Slurm has the cloud's words", || lab.on("control", &words).contains("flavor is out of order"));
    no_more_faults();
    healed("a node that could not be made is free again", || is_in(lab, "burst-1", OFF));
    assert!(acted(lab, "burst-1", "down-without-instance"));

    update(lab, "root", "burst-1", &["state=down", "reason=bad fan"]);
    looked(lab);
    looked(lab);
    looked(lab);
    assert_eq!(state(lab, "burst-1"), "DOWN+CLOUD+POWERED_DOWN", "an administrator's is left alone");
    let page = lab.kiln(&["doctor", "burst-1"]);
    assert!(page.contains("leaves it alone: set down by root: bad fan"), "{page}");
    // What 22.05 makes of this: powered down, not responding, for ever.
    update(lab, "root", "burst-1", &["state=resume"]);
    healed("what an administrator resumed is free again", || is_in(lab, "burst-1", OFF));
    // As slurmstepd and slurmctld drain, for what happened on an instance that is gone by now.
    update(lab, "slurm", "burst-1", &["state=drain", "reason=Kill task failed"]);
    healed("a drain by Slurm's own daemons ends with the instance", || is_in(lab, "burst-1", OFF));
    assert!(acted(lab, "burst-1", "outlived-drain"));
    update(lab, "root", "burst-1", &["state=noresp"]);
    healed("a node that is stuck off is free again", || is_in(lab, "burst-1", OFF));
    assert!(acted(lab, "burst-1", "stuck-off"));
    healthy(lab);
}

const BROKEN_BUILD: &str = r#"{"build": {"fail": 1, "status": 500, "message": "no valid host was found"}}"#;

pub fn left_running(lab: &mut Lab) {
    make("burst-2", &compute("burst-2"));
    healed("the instance of a node that is off is gone", || instances("burst-2").is_empty());
    assert!(acted(lab, "burst-2", "left-running"));

    order(BROKEN_BUILD);
    make("burst-2", &compute("burst-2"));
    healed("the broken instance of a node that is off is gone", || instances("burst-2").is_empty());
    no_more_faults();
    assert!(acted(lab, "burst-2", "broken-instance"));
    healthy(lab);
}

pub fn broken_or_stopped(lab: &mut Lab) {
    power_up(lab, "burst-0");
    let instance = only("burst-0");
    order(BROKEN_BUILD);
    let again = Rebuild {
        image: instance.image.clone().expect("an image"),
        user_data: "".into(),
        ssh_key: String::new(),
        labels: instance.labels.clone(),
    };
    cloud(async |cloud| cloud.rebuild(&instance.id, again).await);
    wait("the instance is broken", || matches!(only("burst-0").status, InstanceStatus::Error { .. }));
    // While Slurm hears from the node, the cloud's word does not count.
    reported_as(lab, "burst-0", "broken-instance");
    assert!(!acted(lab, "burst-0", "broken-instance"));
    lab.on("burst-0", &["systemctl", "stop", "slurmd"]);
    healed("an elastic node with a broken instance is free again", || {
        instances("burst-0").is_empty() && is_in(lab, "burst-0", OFF)
    });
    no_more_faults();
    assert!(acted(lab, "burst-0", "broken-instance"));

    power_up(lab, "burst-0");
    let id = only("burst-0").id;
    cloud(async |cloud| cloud.stop(&id, true).await);
    healed("an elastic node with a stopped instance is free again", || {
        instances("burst-0").is_empty() && is_in(lab, "burst-0", OFF)
    });
    assert!(acted(lab, "burst-0", "stopped-instance"));

    let id = only("standard-0").id;
    let booted = field(lab, "standard-0", "BootTime");
    cloud(async |cloud| cloud.stop(&id, true).await);
    healed("the stopped instance of a fixed node runs, and Slurm forgives the reboot", || {
        field(lab, "standard-0", "BootTime") != booted && is_in(lab, "standard-0", "IDLE")
    });
    assert!(acted(lab, "standard-0", "stopped-instance"));
    assert!(acted(lab, "standard-0", "own-reboot"));
    healthy(lab);
}

/// Slurm itself drops a reason only when it has given up a node that comes back in the end. Here somebody does it in its name.
pub fn lost_reason(lab: &mut Lab) {
    let forgotten = "reason=Node unexpectedly rebooted";
    let ours = "kiln: rollout 6: it did not come back";
    for (drained_for, then) in [("bad fan", "Node"), (ours, "kiln:")] {
        update(lab, "slurm", "standard-0", &["state=DRAIN", &format!("reason={drained_for}")]);
        looked_twice(lab);
        update(lab, "slurm", "standard-0", &[forgotten]);
        looked_twice(lab);
        wait("the reason is as it should be", || field(lab, "standard-0", "Reason").starts_with(then));
        assert!(is_in(lab, "standard-0", "IDLE+DRAIN"), "{}", state(lab, "standard-0"));
    }
    assert_eq!(times_acted(lab, "standard-0", "lost-reason"), 1);
    update(lab, "root", "standard-0", &["state=RESUME"]);
    healthy(lab);
}

/// kilnd has looked at everything since.
fn looked_twice(lab: &mut Lab) {
    for _ in 0..2 {
        let before = last_look(lab);
        wait("kilnd looks", || last_look(lab) != before);
    }
}

fn last_look(lab: &mut Lab) -> Value {
    let health: Value =
        serde_json::from_str(&lab.on("control", &["kiln", "--json", "fleet", "health"])).expect("JSON");
    health["last_look"].clone()
}

pub fn duplicates(lab: &mut Lab) {
    let job = lab.submit("--partition=standard --nodelist=standard-1", "sleep 600");
    lab.wait_job(&job, "RUNNING");
    let first = only("standard-1").id;
    let second = make("standard-1-again", &compute("standard-1")).id;
    healed("the instance that is not in use is gone", || instances("standard-1").len() == 1);
    assert_eq!(only("standard-1").id, first);
    assert_ne!(first, second);
    assert_eq!(lab.job(&job, "JobState"), "RUNNING");
    lab.on("control", &["scancel", &job]);
    healthy(lab);
}

pub fn lost_on_the_way(lab: &mut Lab) {
    // Its instance vanishes while it boots, which takes for ever. A job that may not be requeued waits for it.
    order(r#"{"boot burst-3": {"fail": 1}}"#);
    let job = lab.submit("--no-requeue --partition=burst --nodelist=burst-3 --output=/dev/null", "true");
    wait("its instance is there", || instances("burst-3").iter().any(|i| i.status == InstanceStatus::Active));
    wait("the request is done", || events(lab, "burst-3").iter().any(|e| e["what"] == "resume"));
    no_more_faults();
    let id = only("burst-3").id;
    cloud(async |cloud| cloud.delete(&id).await);
    healed("a node whose instance vanished on the way has another, for the job that waits", || {
        lab.job(&job, "JobState") == "COMPLETED"
    });
    assert!(acted(lab, "burst-3", "nothing-comes"));

    // Slurm loses sight of a node whose instance is well.
    wait("it is up", || is_in(lab, "burst-3", UP));
    lab.on("burst-3", &["systemctl", "stop", "slurmd"]);
    wait("Slurm gives it up", || state(lab, "burst-3").starts_with("DOWN"));
    healed("a node that Slurm lost is deleted and free again", || {
        instances("burst-3").is_empty() && is_in(lab, "burst-3", OFF)
    });
    assert!(acted(lab, "burst-3", "lost-elastic"));
    healthy(lab);
}

pub fn kept_up(lab: &mut Lab) {
    assert_eq!(state(lab, "kept-0"), UP);
    update(lab, "root", "kept-0", &["state=POWER_DOWN_FORCE"]);
    wait("its instance goes", || instances("kept-0").is_empty());
    healed("a node that is to stay up is up again", || is_in(lab, "kept-0", UP));
    assert!(acted(lab, "kept-0", "should-be-up"));
    healthy(lab);
}

pub fn no_room(lab: &mut Lab) {
    let faults = r#"{"create": {"fail": 1, "status": 403, "message": "quota of instances exceeded"}}"#;
    order(faults);
    let job = lab.submit("--partition=burst --nodelist=burst-0 --requeue", "true");
    let reason = |lab: &mut Lab, node: &str| {
        lab.on("control", &["sinfo", "-hN", "-n", node, "-p", "burst", "-o", "%E"])
    };
    healed("the job waits, and says why, within seconds", || {
        reason(lab, "burst-0").contains("quota of instances exceeded")
            && lab.job(&job, "JobState") == "PENDING"
    });
    healed("the other nodes of the group are drained", || {
        let words = reason(lab, "burst-1");
        words.starts_with("kiln: burst paused until ") && words.ends_with("quota of instances exceeded")
    });
    let status = printed(&lab.try_kiln(&["status"]));
    assert!(status.contains("group burst: paused until"), "{status}");
    no_more_faults();
    healed("after the pause all nodes are free again", || {
        ["burst-0", "burst-1", "burst-2", "burst-3"].iter().all(|node| is_in(lab, node, OFF))
    });
    lab.on("control", &["scancel", &job]);
    healthy(lab);
    room_for_three_of_four(lab);
}

/// Nodes that came for a job that cannot have all of its nodes do not stay for an hour.
fn room_for_three_of_four(lab: &mut Lab) {
    order(r#"{"create burst-3": {"fail": 99, "status": 403, "message": "quota of instances exceeded"}}"#);
    let job = lab.submit("--partition=burst --nodes=4 --requeue --output=/dev/null", "true");
    let others = ["burst-0", "burst-1", "burst-2"];
    wait("the others come", || others.iter().all(|node| !instances(node).is_empty()));
    healed("the job waits again", || lab.job(&job, "JobState") == "PENDING");
    healed("what came for it is gone", || others.iter().all(|node| instances(node).is_empty()));
    for node in others {
        assert!(events(lab, node).iter().any(|e| e["what"] == "take-back"), "{node}");
    }
    lab.on("control", &["scancel", &job]);
    no_more_faults();
    healed("after the pause all nodes are free again", || {
        others.iter().chain(&["burst-3"]).all(|node| is_in(lab, node, OFF))
    });
    healthy(lab);
}

pub fn unreadable(lab: &mut Lab) {
    lab.on("control", &["systemctl", "stop", "slurmctld"]);
    let stray = make("ghost-2", &compute("ghost-2"));
    wait("kilnd says that it sees nothing", || {
        let all = lab.json(&["events", "--since", "1m"]);
        all.as_array()
            .expect("events")
            .iter()
            .any(|e| e["what"] == "look" && e["outcome"].as_str().is_some_and(|o| o.contains("scontrol")))
    });
    assert!(cloud(async |cloud| cloud.instances(CLUSTER).await).iter().any(|i| i.id == stray.id));
    let status = lab.json(&["status"]);
    assert!(status["slurm_error"].as_str().is_some_and(|e| e.contains("scontrol")), "{status}");
    let page = lab.kiln(&["doctor", "standard-0"]);
    for half in
        ["Slurm    cannot be reached: ", "cloud    instance ", "does nothing until both can be reached"]
    {
        assert!(page.contains(half), "no {half:?} in:\n{page}");
    }
    lab.on("control", &["systemctl", "start", "slurmctld"]);
    healed("the stray instance is gone once Slurm is back", || {
        cloud(async |cloud| cloud.instances(CLUSTER).await).iter().all(|i| i.id != stray.id)
    });
    healthy(lab);
}

pub fn drift(lab: &mut Lab) {
    // What is a folder for the file is a file on this node, so that it cannot follow.
    lab.on("standard-0", &["touch", "/etc/site"]);
    let text = lab.read_file();
    lab.write_file(&format!(
        "{text}\n[[role.compute.file]]\npath = \"/etc/site/note\"\ncontent = \"hello\"\n"
    ));
    let output = lab.try_kiln(&["configure"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("standard-0") && told.contains("/etc/site"), "{told}");
    reported_as(lab, "standard-0", "old-bundle");
    assert!(verdict(lab, "standard-0").starts_with("its configuration is older"));
    assert_eq!(verdict(lab, "standard-1"), "ok");
    lab.on("standard-0", &["rm", "/etc/site"]);
    lab.kiln(&["configure"]);
    healthy(lab);
    assert_eq!(lab.on("standard-0", &["cat", "/etc/site/note"]), "hello");
    let page = lab.kiln(&["doctor", "standard-0"]);
    for part in
        ["Slurm    idle", "cloud    instance ", "verdict  ok", "end of the console of ", "last events:"]
    {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    let unknown = lab.try_kiln(&["doctor", "login-0"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("login-0 is not a compute node"));
}

/// An administrator changes slurm.conf by hand; `kiln configure` takes it back.
fn by_hand(lab: &mut Lab, change: &str) {
    lab.on("control", &["sed", "-i", change, "/etc/slurm/slurm.conf"]);
    lab.on("control", &["systemctl", "restart", "slurmctld"]);
    wait("Slurm answers", || lab.try_on("control", &["scontrol", "ping"]).status.success());
}

pub fn reported(lab: &mut Lab) {
    lab.on("standard-0", &["systemctl", "stop", "slurmd"]);
    reported_as(lab, "standard-0", "lost");
    lab.on("standard-0", &["systemctl", "start", "slurmd"]);
    healthy(lab);

    by_hand(lab, "s/burst-\\[0-3\\]/burst-[0-2]/");
    reported_as(lab, "burst-3", "unknown-to-slurm");
    lab.kiln(&["configure"]);
    healthy(lab);

    use_image(lab, "second");
    reported_as(lab, "standard-0", "other-image");
    let nothing = |e: &Value| why(e).is_none_or(|(by, _)| by != "other-image");
    assert!(events(lab, "standard-0").iter().all(nothing), "reported, and no more");
    use_image(lab, "default");
    healthy(lab);
}

/// Without its bundle a node does not join; Slurm is the more patient one here.
pub fn never_comes_up(lab: &mut Lab) {
    let (bundle, aside) = ("/srv/kiln/share/bundles/burst-3.age", "/srv/kiln/share/burst-3.aside");
    lab.on("control", &["mv", bundle, aside]);
    by_hand(lab, "s/^ResumeTimeout=.*/ResumeTimeout=600/");
    update(lab, "root", "burst-3", &["state=POWER_UP"]);
    wait("its instance is there", || !instances("burst-3").is_empty());
    healed("a node that never came up is deleted and free again", || {
        instances("burst-3").is_empty() && is_in(lab, "burst-3", OFF)
    });
    assert!(acted(lab, "burst-3", "never-came-up"));
    lab.on("control", &["mv", aside, bundle]);
    lab.kiln(&["configure"]);
    healthy(lab);
}

/// Rules about what the local cloud does not have: its instances cannot be paused.
const ELSEWHERE: [&str; 1] = ["held-instance"];

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
