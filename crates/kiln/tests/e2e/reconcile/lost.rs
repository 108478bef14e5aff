//! Instances that are gone, in the way, hidden, broken, or too many.

use kiln_cloud::{InstanceStatus, Rebuild};
use kiln_wire::labels;

use super::{
    Lab, OFF, UP, Value, acted, by_hand, compute, events, field, healed, healthy, impatiently, is_in, looked,
    power_up, reported_as, state, times_acted, update, verdict, wait, why,
};
use crate::behind::{CLUSTER, cloud, instances, make, only};
use crate::lab::{no_more_faults, order};

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

    lab.edit("newcomer = \"15s\"", "newcomer = \"10m\"");
    lab.kiln(&["configure"]);
    let stray = make("ghost-1", &compute("ghost-1"));
    // kilnd knows it from before the next file.
    wait("kilnd sees it", || lab.json(&["status"])["strays"][0]["rule"] == "newcomer");
    lab.edit("newcomer = \"10m\"", "newcomer = \"15s\"");
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
    // A slurmctld that was killed has drained it, and has forgotten that it had powered it up.
    make("burst-2", &compute("burst-2"));
    update(lab, "slurm", "burst-2", &["state=DRAIN", "reason=Duplicate jobid"]);
    healed("a node that Slurm has drained and powered down is free again", || {
        instances("burst-2").is_empty() && is_in(lab, "burst-2", OFF)
    });
    assert!(acted(lab, "burst-2", "outlived-drain"));

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

    let job = lab.submit("--partition=standard --nodelist=standard-1 --requeue", "sleep 3600");
    lab.wait_job(&job, "RUNNING");
    let (id, other) = (only("standard-0").id, only("standard-1").id);
    let booted = field(lab, "standard-0", "BootTime");
    cloud(async |cloud| cloud.stop(&id, true).await);
    cloud(async |cloud| cloud.stop(&other, true).await);
    healed("the stopped instance of a fixed node runs, and Slurm forgives the reboot", || {
        field(lab, "standard-0", "BootTime") != booted && is_in(lab, "standard-0", "IDLE")
    });
    assert!(acted(lab, "standard-0", "stopped-instance"));
    assert!(acted(lab, "standard-0", "own-reboot"));
    // Slurm 22.05 would go on saying that the job runs.
    healed("the job of a stopped instance is requeued", || {
        lab.job(&job, "Restarts") == "1" && lab.job(&job, "JobState") == "PENDING"
    });
    assert!(acted(lab, "standard-1", "stopped-instance"));
    healed("its node is back in service", || is_in(lab, "standard-1", "IDLE"));
    assert!(acted(lab, "standard-1", "instance-back"));
    // Slurm lets a job that it has requeued wait for two minutes.
    lab.on("control", &["scontrol", "update", &format!("jobid={job}"), "starttime=now"]);
    lab.wait_job(&job, "RUNNING");
    lab.on("control", &["scancel", &job]);
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
    healthy(lab);
}

/// Slurm loses sight of a node whose instance is well.
pub fn given_up(lab: &mut Lab) {
    wait("it is up", || is_in(lab, "burst-3", UP));
    impatiently(lab, |lab| {
        lab.on("burst-3", &["systemctl", "stop", "slurmd"]);
        wait("Slurm gives it up", || state(lab, "burst-3").starts_with("DOWN"));
        healed("a node that Slurm lost is deleted and free again", || {
            instances("burst-3").is_empty() && is_in(lab, "burst-3", OFF)
        });
        assert!(acted(lab, "burst-3", "lost-elastic"));
    });
}

/// Without its bundle a node does not join; Slurm is the more patient one here.
pub fn never_comes_up(lab: &mut Lab) {
    impatiently(lab, |lab| {
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
    });
}
