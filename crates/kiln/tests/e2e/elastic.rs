//! A group that grows and shrinks with the queue.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::behind::cloud;
use crate::cluster_dir::printed;
use crate::lab::{Lab, no_more_faults, order, wait};
use crate::reconcile::looked;
use crate::rollout::{use_image, which_image};

const GROUP: &str = "burst";

/// Two fixed nodes and six that come and go.
pub fn raise(lab: &mut Lab) {
    let text = lab.example().replace(
        "[compute.extra]\nnodes = \"extra-[0-1]\"\n",
        "[compute.burst]\nnodes = \"burst-[0-5]\"\nzones = [\"a\", \"b\"]\nelastic = { idle = \"15s\" }\n",
    );
    // The times of a test: nobody waits for a quarter of an hour here.
    let text = text.replace("KillWait = 30\n", "KillWait = 30\nSuspendTimeout = 10\n");
    lab.write_file(&format!(
        "{text}\n[reconcile]\nevery = \"2s\"\ngrace = \"6s\"\npause = \"20s\"\nfailures = 3\n"
    ));
    lab.kiln(&["up"]);
    assert_eq!(states(lab), ["idle~"; 6]);
    assert_eq!(instances(lab), BTreeSet::new());
}

/// The group's nodes as Slurm shows them in one word.
fn states(lab: &mut Lab) -> Vec<String> {
    let text = lab.on("control", &["sinfo", "--noheader", "--Node", "--partition", GROUP, "--format=%t"]);
    text.lines().map(str::to_string).collect()
}

/// The group's nodes that the cloud has an instance of.
fn instances(lab: &mut Lab) -> BTreeSet<String> {
    let there = |h: &&serde_json::Value| h["group"] == "compute.burst" && !h["instance_id"].is_null();
    lab.hosts().iter().filter(there).map(|h| h["name"].as_str().unwrap_or_default().to_string()).collect()
}

/// Whether the cloud has an instance of a node that the file may no longer have.
fn has_instance(node: &str) -> bool {
    cloud(async |cloud| cloud.instances("e2e").await).iter().any(|instance| instance.name == node)
}

fn wait_all_off(lab: &mut Lab) {
    wait("all instances of the group are gone", || instances(lab).is_empty());
    wait("Slurm has the group powered down", || states(lab).iter().all(|state| state == "idle~"));
}

fn restart_kilnd(lab: &mut Lab, verb: &str) {
    lab.on("control", &["systemctl", verb, "kilnd.service"]);
}

/// Four nodes that are off run a job, under the addresses their names have everywhere, and are gone afterwards.
pub fn grows_and_shrinks(lab: &mut Lab) {
    lab.as_user("login-0", "rm -f may-shrink");
    let script = "srun hostname; until test -e may-shrink; do sleep 0.2; done";
    let id = lab.submit("--partition=burst --nodes=4 --output=grown.%j", script);
    wait("all have run it", || {
        let output = lab.as_user("login-0", &format!("sort grown.{id} 2>/dev/null || true"));
        output == "burst-0\nburst-1\nburst-2\nburst-3"
    });
    let (submitted, started) = (lab.job(&id, "SubmitTime"), lab.job(&id, "StartTime"));
    println!("  submitted to four nodes that were off at {submitted}, started at {started}");
    for node in ["burst-0", "burst-3"] {
        let address = lab.host(node)["address"].as_str().expect("an address").to_string();
        let known = lab.on("login-0", &["getent", "hosts", node]);
        assert!(known.starts_with(&address), "{node} is {address}, and on the login node {known}");
        let told = lab.on("control", &["scontrol", "show", "node", "--oneliner", node]);
        assert!(told.contains(&format!("NodeAddr={address} ")), "{told}");
    }
    // Users get from node to node with a known key.
    lab.on("login-0", &["ssh-keygen", "-F", "burst-0", "-f", "/etc/ssh/ssh_known_hosts"]);
    lab.as_user("login-0", "touch may-shrink");
    lab.wait_job(&id, "COMPLETED");
    wait_all_off(lab);
    let reasons = lab.on("control", &["sinfo", "--noheader", "-R"]);
    assert_eq!(reasons, "");
}

/// What an administrator drained stays drained over being powered down, and is free again when that is lifted.
pub fn drained(lab: &mut Lab) {
    let id = lab.submit("--partition=burst --nodes=1 --nodelist=burst-5 --output=/dev/null", "true");
    lab.wait_job(&id, "COMPLETED");
    lab.on("control", &["scontrol", "update", "nodename=burst-5", "state=drain", "reason=bad fan"]);
    wait("Slurm has powered it down", || states(lab)[5] == "drain~");
    wait("its instance is gone", || instances(lab).is_empty());
    let record = lab.on("control", &["scontrol", "show", "node", "--oneliner", "burst-5"]);
    assert!(record.contains("Reason=bad fan"), "{record}");
    lab.on("control", &["scontrol", "update", "nodename=burst-5", "state=resume"]);
    wait_all_off(lab);
    let id = lab.submit("--partition=burst --nodes=1 --nodelist=burst-5 --output=/dev/null", "true");
    lab.wait_job(&id, "COMPLETED");
}

/// Twenty jobs while nodes are powered down under them: every one runs, and nothing is left behind.
pub fn racing(lab: &mut Lab) {
    let mut jobs = Vec::new();
    for round in 0..20 {
        let nodes = 1 + round % 2;
        jobs.push(lab.submit(&format!("--partition=burst --nodes={nodes} --output=/dev/null"), "sleep 1"));
        // What is idle just now goes, perhaps with the next job on its way there.
        let idle = ["sinfo", "--noheader", "--Node", "--partition", GROUP, "--states=idle", "--format=%N %t"];
        let idle = lab.on("control", &idle);
        for line in idle.lines().filter(|line| line.ends_with(" idle")) {
            let node = format!("nodename={}", line.split(' ').next().unwrap_or_default());
            lab.on("control", &["scontrol", "update", &node, "state=power_down"]);
        }
    }
    for id in &jobs {
        wait(&format!("job {id} is over"), || {
            let state = lab.job(id, "JobState");
            assert!(
                !matches!(state.as_str(), "FAILED" | "NODE_FAIL" | "CANCELLED" | "BOOT_FAIL"),
                "{id}: {state}"
            );
            state == "COMPLETED"
        });
    }
    wait_all_off(lab);
}

/// kilnd is away while Slurm resumes and suspends, and killed ten times in the midst.
pub fn without_kilnd(lab: &mut Lab) {
    restart_kilnd(lab, "stop");
    lab.as_user("login-0", "rm -f may-shrink");
    let until_told = "until test -e may-shrink; do sleep 0.2; done";
    let id = lab.submit("--partition=burst --nodes=2 --output=/dev/null", until_told);
    wait("Slurm powers nodes up", || states(lab).iter().filter(|s| s.ends_with('#')).count() == 2);
    assert!(instances(lab).is_empty());
    restart_kilnd(lab, "start");
    let mut kills = 0;
    wait("the job runs", || {
        if kills < 10 {
            lab.on("control", &["systemctl", "kill", "--signal=KILL", "kilnd.service"]);
            kills += 1;
        }
        kills == 10 && lab.job(&id, "JobState") == "RUNNING"
    });
    assert_eq!(instances(lab).len(), 2);
    wait("kilnd is back", || {
        lab.try_on("control", &["systemctl", "--quiet", "is-active", "kilnd"]).status.success()
    });
    restart_kilnd(lab, "stop");
    lab.as_user("login-0", "touch may-shrink");
    lab.wait_job(&id, "COMPLETED");
    wait("Slurm has powered them down", || states(lab).iter().all(|state| state == "idle~"));
    assert_eq!(instances(lab).len(), 2, "nobody can have deleted them");
    restart_kilnd(lab, "start");
    wait_all_off(lab);
}

/// The cloud throttles, then has no room in one zone: the job runs all the same.
pub fn short_of_room(lab: &mut Lab) {
    order(
        r#"{"create": {"fail": 2, "status": 429, "retry_after": 1},
              "zone a": {"fail": 99, "status": 403, "message": "no capacity in a"}}"#,
    );
    let id = lab.submit("--partition=burst --nodes=2 --output=/dev/null", "true");
    lab.wait_job(&id, "COMPLETED");
    no_more_faults();
    wait_all_off(lab);
}

/// No room anywhere: Slurm has the cloud's words within seconds, the group pauses, and afterwards the job runs.
pub fn no_room(lab: &mut Lab) {
    order(
        r#"{"zone a": {"fail": 99, "status": 403, "message": "no capacity in a"},
              "zone b": {"fail": 99, "status": 403, "message": "no capacity in b"}}"#,
    );
    let start = Instant::now();
    let id = lab.submit("--partition=burst --nodes=1 --output=/dev/null", "true");
    let reasons = |lab: &mut Lab| lab.on("control", &["sinfo", "--noheader", "-R", "--format=%E"]);
    wait("Slurm is told why", || reasons(lab).contains("no capacity in b"));
    println!("  told Slurm of a node that cannot be made after {:.1} s", start.elapsed().as_secs_f64());
    wait("the job waits again", || lab.job(&id, "JobState") == "PENDING");
    let waits = lab.job(&id, "Restarts");
    assert_eq!(waits, "1", "requeued once, and not sent from node to node");
    no_more_faults();
    // Slurm lets a requeued job wait for two minutes; an administrator may know better.
    wait("the group is no longer paused", || reasons(lab).is_empty());
    lab.on("control", &["scontrol", "update", &format!("jobid={id}"), "starttime=now"]);
    lab.wait_job(&id, "COMPLETED");
    wait_all_off(lab);
}

/// A smaller group, and another flavor: a node that is busy goes when its job has ended, and not before.
pub fn changed_under_a_job(lab: &mut Lab) {
    let file = lab.read_file().replace("idle = \"15s\"", "idle = \"10m\"");
    lab.write_file(&file);
    lab.kiln(&["up"]);
    let until_told = "until test -e may-go; do sleep 0.2; done; echo whole";
    let start = |lab: &mut Lab, node: &str, options: &str| {
        lab.as_user("login-0", "rm -f may-go");
        let id = lab
            .submit(&format!("--partition=burst --nodelist={node} --output=went.%j {options}"), until_told);
        lab.wait_job(&id, "RUNNING");
        id
    };
    let ends_well = |lab: &mut Lab, id: &str| {
        lab.as_user("login-0", "touch may-go");
        lab.wait_job(id, "COMPLETED");
        assert_eq!(
            (lab.job(id, "Restarts"), lab.as_user("login-0", &format!("cat went.{id}"))),
            ("0".into(), "whole".into())
        );
    };

    let busy = start(lab, "burst-5", "");
    let smaller = file.replace("burst-[0-5]", "burst-[0-4]");
    // A slurm.conf that Slurm refuses takes no node away: kilnd goes on with the fleet as it was.
    lab.write_file(&smaller.replace("KillWait = 30\n", "KillWat = 30\n"));
    let refused = printed(&lab.try_kiln(&["configure"]));
    assert!(refused.contains("KillWat"), "{refused}");
    looked(lab);
    assert!(has_instance("burst-5"));
    assert_eq!(lab.job(&busy, "JobState"), "RUNNING");

    lab.write_file(&smaller);
    let output = lab.try_kiln(&["up", "--yes"]);
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    assert!(has_instance("burst-5"));
    let status = lab.json(&["status"]);
    let leaver = status["nodes"].as_array().and_then(|nodes| nodes.iter().find(|n| n["node"] == "burst-5"));
    assert_eq!(leaver.map(|n| &n["verdict"]), Some(&"leaving: no longer in the file".into()), "{status}");
    ends_well(lab, &busy);
    lab.kiln(&["up", "--yes"]);
    assert!(!has_instance("burst-5"));
    assert!(!lab.on("control", &["scontrol", "show", "node", "--oneliner"]).contains("burst-5"));
    lab.write_file(&file);
    lab.kiln(&["up"]);

    let idle = lab.submit("--partition=burst --nodelist=burst-1 --output=/dev/null", "true");
    lab.wait_job(&idle, "COMPLETED");
    let busy = start(lab, "burst-0", "");
    let larger = file.replace("nodes = \"burst-[0-5]\"\n", "nodes = \"burst-[0-5]\"\nflavor = \"large\"\n");
    lab.write_file(&larger);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("(2 nodes) when their jobs have ended, flavor medium -> large"), "{plan}");
    lab.kiln(&["up", "--yes"]);
    wait("the idle node is gone", || !instances(lab).contains("burst-1"));
    assert_eq!(lab.job(&busy, "JobState"), "RUNNING");
    ends_well(lab, &busy);
    wait("the busy node is gone, too", || !instances(lab).contains("burst-0"));
    lab.kiln(&["up", "--yes"]);
    let busy = start(lab, "burst-0", "--cpus-per-task=4 --requeue");

    // At once: its job is run again, on a node of the flavor that the file has.
    lab.write_file(&file);
    let plan = lab.kiln(&["apply", "--now", "--dry-run"]);
    assert!(plan.contains(&format!("powers down burst-0 (1 node) at once with job {busy}")), "{plan}");
    lab.kiln(&["apply", "--now", "--yes"]);
    wait("the job is to run again", || lab.job(&busy, "Restarts") == "1");
    lab.as_user("login-0", &format!("scancel {busy}; touch may-go"));
    gone_during_up(lab);
    lab.write_file(&file.replace("idle = \"10m\"", "idle = \"15s\""));
    lab.kiln(&["up", "--yes"]);
    wait_all_off(lab);
}

/// A node that is powered down while `kiln up` waits for it: it gets its configuration when it comes again.
fn gone_during_up(lab: &mut Lab) {
    let id = lab.submit("--partition=burst --nodelist=burst-1 --output=/dev/null", "true");
    lab.wait_job(&id, "COMPLETED");
    lab.on("burst-1", &["systemctl", "stop", "ssh"]);
    std::thread::scope(|scope| {
        let up = scope.spawn(|| lab.try_kiln(&["up", "--yes"]));
        lab.on("control", &["scontrol", "update", "nodename=burst-1", "state=power_down_force"]);
        wait("its instance is gone", || !has_instance("burst-1"));
        wait("`kiln up` goes on without it", || up.is_finished());
        let up = up.join().expect("no panic");
        assert!(up.status.success(), "{}", printed(&up));
    });
}

/// A new image: what is idle goes at once, what is busy when its job is over, and all come back on the new one. The
/// fixed nodes are rebuilt in the same rollout.
pub fn new_image(lab: &mut Lab) {
    // Built before, and with nodes that do not leave by themselves meanwhile.
    let text = lab.read_file().replace("idle = \"15s\"", "idle = \"10m\"");
    let image = "[image.second]\nsource = \"default\"\ncommands = [\"echo second >/etc/which-image\"]\n\n";
    lab.write_file(&format!("{image}{text}"));
    lab.kiln(&["image", "build", "second"]);
    lab.kiln(&["up"]);
    let until_told = "until test -e go-on; do sleep 0.2; done";
    let busy = lab.submit("--partition=burst --nodes=1 --nodelist=burst-0 --output=/dev/null", until_told);
    lab.wait_job(&busy, "RUNNING");
    let idle = lab.submit("--partition=burst --nodes=1 --nodelist=burst-1 --output=/dev/null", "true");
    lab.wait_job(&idle, "COMPLETED");
    use_image(lab, "second");
    assert_eq!(which_image(lab, "burst-0"), "default");
    lab.kiln(&["rebuild", "--detach"]);
    wait("the idle node is gone", || !instances(lab).contains("burst-1"));
    assert_eq!(lab.job(&busy, "JobState"), "RUNNING");
    assert!(instances(lab).contains("burst-0"));
    lab.as_user("login-0", "touch go-on");
    let report = lab.watch();
    assert_eq!(
        (&report["done"], &report["failed"], &report["skipped"]),
        (&4.into(), &0.into(), &4.into()),
        "{report}"
    );
    lab.wait_job(&busy, "COMPLETED");
    assert_eq!(lab.job(&busy, "Restarts"), "0");
    for node in ["standard-0", "standard-1"] {
        assert_eq!(which_image(lab, node), "second");
    }
    // What the rollout gave Slurm as a reason goes with it.
    wait("no node has a reason of Kiln's", || {
        !lab.on("control", &["sinfo", "-hN", "-o", "%N %E"]).contains("kiln:")
    });
    let again = lab.submit("--partition=burst --nodes=2 --output=second.%j", "srun cat /etc/which-image");
    lab.wait_job(&again, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat second.{again}")), "second\nsecond");
    // Left up, for `destroy` to find.
    assert_eq!(instances(lab).len(), 2);
}
