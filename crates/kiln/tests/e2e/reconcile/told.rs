//! What Kiln leaves to people, waits for, or does not touch: reasons, room, drift.

use super::{
    Lab, OFF, UP, Value, acted, by_hand, compute, events, field, healed, healthy, is_in, printed,
    reported_as, state, times_acted, update, verdict, wait, why,
};
use crate::behind::{CLUSTER, cloud, instances, make, only};
use crate::lab::{no_more_faults, order};
use crate::rollout::use_image;

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

pub fn kept_up(lab: &mut Lab) {
    wait("it is up", || is_in(lab, "kept-0", UP));
    let old = only("kept-0").id;
    update(lab, "root", "kept-0", &["state=POWER_DOWN_FORCE"]);
    // The next one may be there before anybody looks.
    wait("its instance goes", || instances("kept-0").iter().all(|instance| instance.id != old));
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
    // Of nodes that are off nobody else could tell.
    assert_eq!(verdict(lab, "burst-1"), "Slurm could not be reached");
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
    wait("the other one has told of its own", || verdict(lab, "standard-1") == "ok");
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
