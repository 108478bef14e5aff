//! What the reconciler is for: every kind of disagreement between Slurm and the cloud, provoked for real and healed.

use std::time::Instant;

use kiln_cloud::{Attachment, Cloud, Instance, InstanceStatus, Labels, NewInstance, Rebuild, label};
use serde_json::Value;

use crate::lab::{Lab, cloud_root, wait};

const OFF: &str = "IDLE+CLOUD+POWERED_DOWN";
const UP: &str = "IDLE+CLOUD";
const CLUSTER: &str = "e2e";

/// Two fixed nodes, four that come and go, and a group of which one is always there.
pub fn raise(lab: &mut Lab) {
    let file = lab.example();
    let file = file
        .replace(
            "[compute.extra]\nnodes = \"extra-[0-1]\"\nimage = \"default\"\n",
            "[compute.burst]\nnodes = \"burst-[0-3]\"\nimage = \"default\"\nelastic = { idle = \"1h\" }\n\n\
             [compute.kept]\nnodes = \"kept-[0-1]\"\nimage = \"default\"\nelastic = { idle = \"1h\", min = 1 }\n",
        )
        .replace("KillWait = 30\n", "KillWait = 30\nResumeTimeout = 60\nSuspendTimeout = 5\n")
        + "\n[reconcile]\nevery = \"2s\"\ngrace = \"5s\"\npause = \"20s\"\nfailures = 2\n";
    lab.write_file(&file);
    lab.kiln(&["up"]);
    healthy(lab);
    // Nodes say which bundle they have.
    wait("the nodes tell their bundles", || {
        lab.on("control", &["scontrol", "show", "node", "standard-0"]).contains("Extra=kiln-bundle:")
    });
}

fn cloud<T>(work: impl AsyncFnOnce(&Cloud) -> kiln_cloud::Result<T>) -> T {
    let cloud = Cloud::local_with(cloud_root(), env!("CARGO_BIN_EXE_kiln").into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work(&cloud)).expect("the cloud does it")
}

fn instances(node: &str) -> Vec<Instance> {
    let all = cloud(async |cloud| cloud.instances(CLUSTER).await);
    all.into_iter().filter(|i| i.labels.get(label::NODE).is_some_and(|name| name == node)).collect()
}

fn only(node: &str) -> Instance {
    let mut all = instances(node);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Another instance like a fixed node's, with other labels.
fn make(name: &str, labels: &[(&str, &str)]) -> Instance {
    let model = only("standard-1");
    let network = cloud(async |cloud| cloud.networks(CLUSTER).await).remove(0).id;
    let labels = [(label::CLUSTER, CLUSTER)].iter().chain(labels);
    let new = NewInstance {
        name: name.into(),
        image: model.image.expect("an image"),
        flavor: model.flavor,
        public: false,
        zone: None,
        network,
        address: None,
        security_groups: vec![],
        user_data: String::new(),
        ssh_key: String::new(),
        labels: labels.map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect::<Labels>(),
        volumes: Vec::<Attachment>::new(),
    };
    cloud(async |cloud| cloud.create(vec![new]).await.remove(0))
}

fn compute(node: &str) -> [(&'static str, &str); 2] {
    [(label::ROLE, "compute"), (label::NODE, node)]
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

fn events(lab: &mut Lab, node: &str) -> Vec<Value> {
    lab.json(&["events", node]).as_array().cloned().expect("events")
}

/// What the reconciler did to a node, by rule.
fn acted(lab: &mut Lab, node: &str, rule: &str) -> usize {
    let rule = format!("{rule}: ");
    events(lab, node).iter().filter(|e| e["why"].as_str().is_some_and(|w| w.starts_with(&rule))).count()
}

fn verdict(lab: &mut Lab, node: &str) -> String {
    let status = lab.json(&["status"]);
    let found = status["nodes"].as_array().into_iter().flatten().find(|n| n["node"] == node);
    found.and_then(|n| n["verdict"].as_str()).unwrap_or_default().to_string()
}

fn healthy(lab: &mut Lab) {
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
fn looked(lab: &mut Lab) {
    let look = |lab: &mut Lab| {
        let fleet = ["runuser", "-u", "slurm", "--", "kiln", "--json", "fleet", "health"];
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
    assert!(acted(lab, "burst-0", "no-instance") >= 1);
    healthy(lab);

    let id = only("standard-0").id;
    cloud(async |cloud| cloud.delete(&id).await);
    healed("the fixed node is set down in words", || {
        lab.on("control", &["sinfo", "-hN", "-n", "standard-0", "-o", "%T %E"])
            .starts_with("down kiln: its instance is gone; kiln apply makes it anew")
    });
    lab.kiln(&["up", "--yes"]);
    healthy(lab);
}

pub fn strays(lab: &mut Lab) {
    let stray = make("ghost-0", &compute("ghost-0"));
    let foreign = make("someone", &[(label::ROLE, "other")]);
    looked(lab);
    assert!(
        cloud(async |cloud| cloud.instances(CLUSTER).await).iter().any(|i| i.id == stray.id),
        "an hour of grace"
    );
    let status = lab.json(&["status"]);
    assert_eq!(status["strays"][0]["rule"], "newcomer", "{status}");
    // As after the next `configure`.
    lab.on("control", &["touch", "/etc/kiln/fleet.json"]);
    let is_there = |id: &str| cloud(async |cloud| cloud.instances(CLUSTER).await).iter().any(|i| i.id == id);
    healed("the stray instance is gone", || !is_there(&stray.id));
    assert!(is_there(&foreign.id), "what has other labels stays");
    cloud(async |cloud| cloud.delete(&foreign.id).await);
    healthy(lab);
}

pub fn down_without_instance(lab: &mut Lab) {
    update(lab, "slurm", "burst-1", &["state=down", "reason=Not responding"]);
    healed("a node that Slurm set down is free again", || is_in(lab, "burst-1", OFF));
    assert!(acted(lab, "burst-1", "down-without-instance") >= 1);

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
    update(lab, "root", "burst-1", &["state=noresp"]);
    healed("a node that is stuck off is free again", || is_in(lab, "burst-1", OFF));
    assert!(acted(lab, "burst-1", "stuck-off") >= 1);
    healthy(lab);
}

pub fn left_running(lab: &mut Lab) {
    make("burst-2", &compute("burst-2"));
    healed("the instance of a node that is off is gone", || instances("burst-2").is_empty());
    assert_eq!(acted(lab, "burst-2", "left-running"), 1);

    break_builds(1);
    make("burst-2", &compute("burst-2"));
    healed("the broken instance of a node that is off is gone", || instances("burst-2").is_empty());
    mend_builds();
    assert_eq!(acted(lab, "burst-2", "broken-instance"), 1);
    healthy(lab);
}

fn break_builds(times: u32) {
    let faults =
        format!(r#"{{"build": {{"fail": {times}, "status": 500, "message": "no valid host was found"}}}}"#);
    std::fs::write(cloud_root().join("faults.json"), faults).expect("faults on order");
}

fn mend_builds() {
    let _ = std::fs::remove_file(cloud_root().join("faults.json"));
}

pub fn broken_or_stopped(lab: &mut Lab) {
    power_up(lab, "burst-0");
    let instance = only("burst-0");
    break_builds(1);
    let again = Rebuild {
        image: instance.image.clone().expect("an image"),
        user_data: String::new(),
        ssh_key: String::new(),
        labels: instance.labels.clone(),
    };
    cloud(async |cloud| cloud.rebuild(&instance.id, again).await);
    wait("the instance is broken", || matches!(only("burst-0").status, InstanceStatus::Error { .. }));
    healed("an elastic node with a broken instance is free again", || {
        instances("burst-0").is_empty() && is_in(lab, "burst-0", OFF)
    });
    mend_builds();
    assert!(acted(lab, "burst-0", "broken-instance") >= 1);

    power_up(lab, "burst-0");
    let id = only("burst-0").id;
    cloud(async |cloud| cloud.stop(&id, true).await);
    healed("an elastic node with a stopped instance is free again", || {
        instances("burst-0").is_empty() && is_in(lab, "burst-0", OFF)
    });
    assert!(acted(lab, "burst-0", "stopped-instance") >= 1);

    let id = only("standard-0").id;
    let booted = field(lab, "standard-0", "BootTime");
    cloud(async |cloud| cloud.stop(&id, true).await);
    healed("the stopped instance of a fixed node runs, and the node is in service", || {
        field(lab, "standard-0", "BootTime") != booted && is_in(lab, "standard-0", "IDLE")
    });
    assert_eq!(acted(lab, "standard-0", "stopped-instance"), 1);
    // As Slurm says it where it may not take nodes back by itself.
    update(lab, "slurm", "standard-0", &["state=down", "reason=Node unexpectedly rebooted"]);
    healed("Kiln's own reboot is forgiven", || {
        acted(lab, "standard-0", "own-reboot") == 1 && is_in(lab, "standard-0", "IDLE")
    });
    healthy(lab);
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
    // Its instance vanishes while it boots.
    update(lab, "root", "burst-3", &["state=POWER_UP"]);
    wait("its instance is there", || instances("burst-3").iter().any(|i| i.status == InstanceStatus::Active));
    wait("the request is done", || events(lab, "burst-3").iter().any(|e| e["what"] == "resume"));
    lab.try_kiln(&["ssh", "burst-3", "systemctl", "mask", "--now", "slurmd"]);
    let id = only("burst-3").id;
    cloud(async |cloud| cloud.delete(&id).await);
    healed("a node whose instance vanished on the way is free again", || {
        instances("burst-3").is_empty() && is_in(lab, "burst-3", OFF)
    });

    // Slurm loses sight of a node whose instance is well.
    power_up(lab, "burst-3");
    lab.on("burst-3", &["systemctl", "stop", "slurmd"]);
    update(lab, "slurm", "burst-3", &["state=down", "reason=Not responding"]);
    healed("a node that Slurm lost is deleted and free again", || {
        instances("burst-3").is_empty() && is_in(lab, "burst-3", OFF)
    });
    assert!(acted(lab, "burst-3", "lost-elastic") >= 1);
    healthy(lab);
}

pub fn kept_up(lab: &mut Lab) {
    assert_eq!(state(lab, "kept-0"), UP);
    update(lab, "root", "kept-0", &["state=POWER_DOWN_FORCE"]);
    wait("its instance goes", || instances("kept-0").is_empty());
    healed("a node that is to stay up is up again", || is_in(lab, "kept-0", UP));
    assert!(acted(lab, "kept-0", "should-be-up") >= 1);
    healthy(lab);
}

pub fn no_room(lab: &mut Lab) {
    let faults = r#"{"create": {"fail": 1, "status": 403, "message": "quota of instances exceeded"}}"#;
    std::fs::write(cloud_root().join("faults.json"), faults).expect("faults on order");
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
    let status = lab.kiln(&["status"]);
    assert!(status.contains("group burst: paused until"), "{status}");
    mend_builds();
    healed("after the pause all nodes are free again", || {
        ["burst-0", "burst-1", "burst-2", "burst-3"].iter().all(|node| is_in(lab, node, OFF))
    });
    lab.on("control", &["scancel", &job]);
    healthy(lab);
}

pub fn unreadable(lab: &mut Lab) {
    let stray = make("ghost-1", &compute("ghost-1"));
    lab.on("control", &["systemctl", "stop", "slurmctld"]);
    lab.on("control", &["touch", "/etc/kiln/fleet.json"]);
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
    lab.on("control", &["systemctl", "start", "slurmctld"]);
    healed("the stray instance is gone once Slurm is back", || {
        cloud(async |cloud| cloud.instances(CLUSTER).await).iter().all(|i| i.id != stray.id)
    });
    healthy(lab);
}

pub fn drift(lab: &mut Lab) {
    update(lab, "root", "standard-0", &["extra=kiln-bundle:000000000000"]);
    healed("a node with an older bundle is reported", || {
        verdict(lab, "standard-0").starts_with("its configuration is older")
    });
    lab.kiln(&["configure"]);
    healthy(lab);
    let page = lab.kiln(&["doctor", "standard-0"]);
    for part in
        ["Slurm    idle", "cloud    instance ", "verdict  ok", "end of the console of ", "last events:"]
    {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    let unknown = lab.try_kiln(&["doctor", "login-0"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("login-0 is no compute node"));
}

/// Changes what kilnd was told; `kiln configure` takes it back.
fn mislead(lab: &mut Lab, change: &str) {
    // Into the same file: kilnd has to be able to read it.
    let script = format!(
        "sed '{change}' /etc/kiln/fleet.json >/root/f && cat /root/f >/etc/kiln/fleet.json; rm /root/f"
    );
    lab.on("control", &["sh", "-c", &script]);
}

fn finding(lab: &mut Lab, node: &str) -> String {
    let fleet = ["runuser", "-u", "slurm", "--", "kiln", "--json", "fleet", "health"];
    let health: Value = serde_json::from_str(&lab.on("control", &fleet)).expect("JSON");
    let found = health["nodes"].as_array().into_iter().flatten().find(|n| n["node"] == node);
    found.and_then(|n| n["finding"]["rule"].as_str()).unwrap_or_default().to_string()
}

pub fn reported(lab: &mut Lab) {
    lab.on("standard-0", &["systemctl", "stop", "slurmd"]);
    update(lab, "root", "standard-0", &["state=noresp"]);
    healed("a node that Slurm does not reach is reported", || finding(lab, "standard-0") == "lost");
    lab.on("standard-0", &["systemctl", "start", "slurmd"]);
    healthy(lab);

    mislead(
        lab,
        "/\"standard-0\"/,/}/ s/\"image\": \"[^\"]*\"/\"image\": \"another\"/; s/\"burst-3\": {/\"burst-9\": {/",
    );
    healed("a node with another image is reported", || finding(lab, "standard-0") == "other-image");
    healed("a node that Slurm does not know is reported", || finding(lab, "burst-9") == "unknown-to-slurm");
    let nothing = |e: &Value| !e["why"].as_str().unwrap_or_default().starts_with("other-image");
    assert!(events(lab, "standard-0").iter().all(nothing), "reported, and no more");
    lab.kiln(&["configure"]);
    healthy(lab);
}

/// Without its bundle a node does not join; Slurm is the more patient one here.
pub fn never_comes_up(lab: &mut Lab) {
    let (bundle, aside) = ("/srv/kiln/share/bundles/burst-3.age", "/srv/kiln/share/burst-3.aside");
    lab.on("control", &["mv", bundle, aside]);
    mislead(lab, "s/\"resume_timeout\": [0-9]*/\"resume_timeout\": 5/");
    update(lab, "root", "burst-3", &["state=POWER_UP"]);
    wait("its instance is there", || !instances("burst-3").is_empty());
    healed("a node that never came up is deleted and free again", || {
        instances("burst-3").is_empty() && is_in(lab, "burst-3", OFF)
    });
    assert!(acted(lab, "burst-3", "never-came-up") >= 1);
    lab.on("control", &["mv", aside, bundle]);
    lab.kiln(&["configure"]);
    healthy(lab);
}
