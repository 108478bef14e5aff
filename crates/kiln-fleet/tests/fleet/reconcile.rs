//! The reconciler's loop: when it acts, and when it does not.

use kiln_cloud::{Error, InstanceStatus};
use kiln_fleet::store::CloudOperation;
use kiln_wire::labels;

use crate::lab::{Lab, until};

/// A round every second, and a second of grace.
const QUICK: &str = r#","resume_timeout":1,"patience":{"reconcile":1,"grace":1,"newcomer":1}"#;
const ELASTIC: &str = r#","elastic":{"g":{"places":[]}}"#;
const OFF: &str = "IDLE+CLOUD+POWERED_DOWN";
const SILENT: &str = "ALLOCATED+NOT_RESPONDING";
const NEVER: &str = "None";

/// All nodes agree with their instances: fixed ones, or an elastic group that is off.
fn lab(elastic: bool) -> Lab {
    let lab = Lab::new();
    lab.fleet_file("old", &format!("{QUICK}{}", if elastic { ELASTIC } else { "" }));
    if elastic {
        for node in crate::lab::NODES {
            lab.cloud.lose(node);
            lab.slurm.node(node, OFF, NEVER);
        }
    }
    lab
}

/// Two whole rounds have gone by.
async fn two_rounds(lab: &Lab) {
    for _ in 0..2 {
        let before = lab.store.last_look().unwrap();
        until("the reconciler looks", || lab.store.last_look().unwrap() != before).await;
    }
}

fn updates(lab: &Lab) -> Vec<String> {
    lab.slurm.calls("scontrol update")
}

#[tokio::test]
async fn where_all_agrees_nothing_is_done() {
    let mut lab = lab(true);
    lab.start();
    two_rounds(&lab).await;
    assert!(lab.store.findings().unwrap().is_empty());
    assert!(lab.cloud.calls().is_empty() && updates(&lab).is_empty());
    lab.stop().await;
}

#[tokio::test]
async fn while_the_cloud_cannot_be_read_nothing_is_done() {
    let mut lab = lab(false);
    lab.cloud.lose("n-0");
    lab.slurm.node("n-0", SILENT, NEVER);
    lab.cloud.refuse("list", Error::unanswered("the database is away"));
    lab.start();
    two_rounds(&lab).await;
    let (_, problem) = lab.store.last_look().unwrap().unwrap();
    assert!(problem.unwrap().contains("the database is away"));
    assert!(updates(&lab).is_empty() && lab.store.findings().unwrap().is_empty());
    lab.cloud.heal("list");
    until("the node is set down", || !updates(&lab).is_empty()).await;
    assert!(
        updates(&lab)[0]
            .starts_with("scontrol update nodename=n-0 state=down reason=kiln: its instance is gone")
    );
    let told: Vec<_> = lab.store.events(Some(""), 9).unwrap().into_iter().map(|e| e.outcome).collect();
    assert_eq!(told.len(), 2, "an outage is told once, and its end: {told:?}");
    lab.stop().await;
}

#[tokio::test]
async fn a_cloud_that_does_not_show_the_control_node_is_not_believed() {
    let mut lab = lab(false);
    for id in ["control", "n-0", "n-1", "n-2"] {
        lab.cloud.lose(id);
    }
    lab.start();
    two_rounds(&lab).await;
    assert!(updates(&lab).is_empty());
    lab.stop().await;
}

/// As Nova does with the servers of a cell that does not answer.
#[tokio::test]
async fn an_instance_that_a_list_lacks_is_gone_only_when_the_cloud_says_so() {
    let mut lab = lab(false);
    lab.start();
    two_rounds(&lab).await;
    lab.slurm.node("n-0", SILENT, NEVER);
    lab.cloud.hide("n-0");
    let rule = || lab.store.findings().unwrap().first().map(|f| f.rule.clone());
    until("it is reported", || rule().as_deref() == Some("unlisted")).await;
    two_rounds(&lab).await;
    assert!(updates(&lab).is_empty(), "it is there");
    lab.cloud.refuse("show", Error::failed("the cell does not answer"));
    lab.cloud.lose("n-0");
    two_rounds(&lab).await;
    two_rounds(&lab).await;
    assert!(updates(&lab).is_empty(), "nobody knows");
    lab.cloud.heal("show");
    until("it is set down", || updates(&lab).iter().any(|call| call.contains("n-0 state=down"))).await;
    lab.stop().await;
}

#[tokio::test]
async fn a_node_that_slurm_hears_from_is_left_alone_whatever_the_cloud_says() {
    let mut lab = lab(false);
    lab.start();
    two_rounds(&lab).await;
    lab.cloud.lose("n-0");
    lab.cloud.put("n-1", |i| i.status = InstanceStatus::Stopped);
    lab.slurm.node("n-0", "ALLOCATED", NEVER);
    lab.slurm.node("n-1", "ALLOCATED", NEVER);
    until("both are reported", || lab.store.findings().unwrap().len() == 2).await;
    two_rounds(&lab).await;
    two_rounds(&lab).await;
    assert!(updates(&lab).is_empty() && lab.cloud.calls().is_empty());
    lab.stop().await;
}

#[tokio::test]
async fn a_list_that_lacks_many_instances_stops_everything_until_they_are_accounted_for() {
    let mut lab = lab(false);
    let text = std::fs::read_to_string(lab.path("fleet.json")).unwrap();
    let node = r#""n-3":{"group":"g","image":"old","user_data":"u","ssh_key":"k"},"n-0":"#;
    std::fs::write(lab.path("fleet.json"), text.replace(r#""n-0":"#, node)).unwrap();
    lab.cloud.put("n-3", |_| {});
    for node in ["n-0", "n-1", "n-2", "n-3"] {
        lab.slurm.node(node, SILENT, NEVER);
    }
    lab.start();
    two_rounds(&lab).await;
    for node in ["n-0", "n-1", "n-2", "n-3"] {
        lab.cloud.hide(node);
    }
    lab.cloud.put("stray", |_| {});
    let problem = || lab.store.last_look().unwrap().unwrap().1.unwrap_or_default();
    until("it is said", || problem().contains("lacks the instances of 4 of 4 nodes (n-[0-3])")).await;
    two_rounds(&lab).await;
    two_rounds(&lab).await;
    assert!(updates(&lab).is_empty() && lab.cloud.has("stray"));
    let told = lab.store.events(Some(""), 9).unwrap();
    assert_eq!(told.iter().filter(|e| e.outcome.contains("lacks the instances")).count(), 1, "{told:?}");
    // The cloud answers for each of them: one is gone, the others are still missing.
    lab.cloud.lose("n-0");
    until("that one is set down", || updates(&lab).iter().any(|call| call.contains("n-0 state=down"))).await;
    until("the stray one is gone", || !lab.cloud.has("stray")).await;
    assert!(updates(&lab).iter().all(|call| call.contains("nodename=n-0 ")), "{:?}", updates(&lab));
    lab.stop().await;
}

/// slurm.conf was refused, or the fleet file is ahead of it.
#[tokio::test]
async fn an_instance_of_a_node_that_slurm_still_knows_is_no_stray() {
    let mut lab = lab(false);
    lab.cloud.put("removed-0", |_| {});
    lab.slurm.node("removed-0", "ALLOCATED", NEVER);
    lab.start();
    until("it is reported", || !lab.store.findings().unwrap().is_empty()).await;
    two_rounds(&lab).await;
    two_rounds(&lab).await;
    assert!(lab.cloud.has("removed-0") && lab.cloud.calls().is_empty());
    std::fs::remove_file(lab.slurm.dir.join("nodes/removed-0")).unwrap();
    until("it goes with its node", || !lab.cloud.has("removed-0")).await;
    lab.stop().await;
}

#[tokio::test]
async fn while_slurm_cannot_be_read_nothing_is_done() {
    let mut lab = lab(true);
    lab.cloud.put("n-0", |_| {});
    for node in crate::lab::NODES {
        std::fs::remove_file(lab.slurm.dir.join("nodes").join(node)).unwrap();
    }
    lab.start();
    two_rounds(&lab).await;
    assert!(lab.cloud.calls().is_empty());
    for node in crate::lab::NODES {
        lab.slurm.node(node, OFF, NEVER);
    }
    until("what was left running goes", || lab.cloud.calls() == ["delete n-0"]).await;
    lab.stop().await;
}

#[tokio::test]
async fn an_instance_without_a_node_is_deleted_once_and_others_stay() {
    let mut lab = lab(false);
    // kilnd has seen it before `kiln configure` came: whatever the cloud's clock says, it is not for a node to come.
    lab.cloud.put("stray", |i| i.created = jiff::Timestamp::now() + std::time::Duration::from_secs(3600));
    lab.store.note_instances([("stray", &lab.cloud.instance("stray"))].into_iter()).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    let file = std::fs::File::options().append(true).open(lab.path("fleet.json")).unwrap();
    file.set_modified(later).unwrap();
    lab.cloud.put("login", |i| _ = i.labels.insert(labels::ROLE.into(), "login".into()));
    lab.cloud.put("unlabelled", |i| _ = i.labels.remove(labels::ROLE));
    lab.cloud.put("another-clusters", |i| _ = i.labels.insert(labels::CLUSTER.into(), "d".into()));
    lab.start();
    until("the stray one is gone", || !lab.cloud.has("stray")).await;
    two_rounds(&lab).await;
    assert_eq!(lab.cloud.calls(), ["delete stray"]);
    let event = lab.store.events(Some("stray (stray)"), 9).unwrap().remove(0);
    assert_eq!((event.what.as_str(), event.outcome.as_str()), ("delete instance stray", "done"));
    assert!(event.why.starts_with("stray: "), "{event:?}");
    lab.stop().await;
}

/// The cloud does not take the deletion of what Slurm has powered down; meanwhile Slurm wants the node.
#[tokio::test]
async fn a_deletion_that_was_put_off_spares_a_node_that_is_wanted_again() {
    let mut lab = lab(true);
    lab.cloud.put("n-0", |_| {});
    lab.cloud.refuse("delete", Error::busy(None));
    lab.start();
    let refused =
        || lab.store.events(Some("n-0"), 50).unwrap().iter().any(|event| event.what.starts_with("delete"));
    until("the deletion has been refused", refused).await;
    lab.slurm.node("n-0", "ALLOCATED+CLOUD", NEVER);
    lab.cloud.heal("delete");
    two_rounds(&lab).await;
    lab.stop().await;
    assert!(lab.cloud.has("n-0"), "{:?}", lab.cloud.calls());
}

#[tokio::test]
async fn a_deletion_that_hangs_does_not_delay_others() {
    let mut lab = lab(true);
    lab.cloud.hold("delete n-0");
    lab.cloud.put("n-0", |_| {});
    lab.start();
    until("it is to go", || lab.cloud.calls() == ["delete n-0"]).await;
    two_rounds(&lab).await;
    lab.cloud.put("n-1", |_| {});
    until("another one goes", || !lab.cloud.has("n-1")).await;
    two_rounds(&lab).await;
    assert_eq!(lab.cloud.calls(), ["delete n-0", "delete n-1"], "and it is asked for once");
    lab.cloud.release("delete n-0");
    until("it is gone after all", || !lab.cloud.has("n-0")).await;
    lab.stop().await;
}

#[tokio::test]
async fn a_node_in_work_is_left_alone_until_the_work_is_done() {
    use kiln_fleet::store::{NewRequest, RequestKind};
    let mut lab = lab(true);
    lab.cloud.put("n-0", |_| {});
    lab.store.enqueue(&[NewRequest::new(RequestKind::Reboot, "n-0", jiff::Timestamp::now())]).unwrap();
    let id = lab.store.open_requests().unwrap()[0].id;
    lab.store.postpone(id, std::time::Duration::from_secs(3600), "the cloud does not answer").unwrap();
    lab.start();
    two_rounds(&lab).await;
    assert!(lab.cloud.calls().is_empty() && lab.store.findings().unwrap().is_empty());
    lab.store.finish(id).unwrap();
    until("what was left running goes", || !lab.cloud.has("n-0")).await;
    lab.stop().await;
}

/// However long a rollout is paused.
#[tokio::test]
async fn of_a_rollouts_nodes_only_those_in_work_are_left_alone() {
    use kiln_fleet::start;
    use kiln_wire::rollout::{NodeStep, Options};
    let mut lab = lab(false);
    lab.fleet_file("new", QUICK);
    let id = start(&lab.store, &lab.fleet(), &lab.commands(), Options::default()).await.unwrap();
    kiln_fleet::pause(&lab.store, id, "ann").unwrap();
    let mut nodes = lab.store.rollout(id).unwrap().unwrap().nodes;
    (nodes[0].step, nodes[0].begun) = (NodeStep::Done, Some(nodes[0].since));
    // kilnd was ended while it handed the node to Slurm.
    nodes[1].begun = Some(nodes[1].since);
    for node in &nodes {
        lab.store.save_rollout_node(id, node).unwrap();
        lab.cloud.lose(&node.node);
        lab.slurm.node(&node.node, SILENT, NEVER);
    }
    lab.start();
    until("both are set down", || updates(&lab).len() >= 2).await;
    two_rounds(&lab).await;
    let updates = updates(&lab);
    let about = |node: &str| updates.iter().any(|call| call.contains(&format!("nodename={node} state=down")));
    assert_eq!(["n-0", "n-1", "n-2"].map(about), [true, false, true], "{updates:?}");
    lab.stop().await;
}

#[tokio::test]
async fn a_node_that_somebody_drained_is_left_alone() {
    let mut lab = lab(false);
    lab.cloud.put("n-0", |i| i.status = InstanceStatus::Stopped);
    lab.slurm.node("n-0", "IDLE+DRAIN", "None Reason=bad fan [root@2020-01-01T00:00:00]");
    lab.start();
    two_rounds(&lab).await;
    assert!(lab.cloud.calls().is_empty() && updates(&lab).is_empty());
    lab.stop().await;
}

#[tokio::test]
async fn an_instance_that_was_shut_off_is_started_and_its_node_forgiven() {
    let mut lab = lab(false);
    lab.cloud.put("n-0", |i| i.status = InstanceStatus::Stopped);
    lab.slurm.node("n-0", "IDLE+NOT_RESPONDING", NEVER);
    lab.start();
    until("it is started", || lab.cloud.calls() == ["start n-0"]).await;
    assert_eq!(lab.store.cloud_operations().unwrap()["n-0"].0, CloudOperation::Start);
    let now = jiff::Timestamp::now().to_string();
    let rebooted = format!("{} Reason=Node unexpectedly rebooted [slurm@2020-01-01T00:00:00]", &now[..19]);
    lab.slurm.node("n-0", "DOWN", &rebooted);
    until("it is back", || updates(&lab) == ["scontrol update nodename=n-0 state=resume"]).await;
    lab.stop().await;
}

/// Slurm is told before the instance starts, and hears the end of it when the node has registered.
#[tokio::test]
async fn jobs_of_an_instance_that_was_shut_off_are_given_back() {
    let mut lab = lab(false);
    lab.cloud.put("n-0", |i| i.status = InstanceStatus::Stopped);
    lab.slurm.node("n-0", SILENT, NEVER);
    lab.start();
    until("it is started", || lab.cloud.calls() == ["start n-0"]).await;
    let down = "scontrol update nodename=n-0 state=down reason=kiln: its instance is shut off";
    assert_eq!(updates(&lab), [down]);
    let now = jiff::Timestamp::now().to_string();
    let reason = format!("{} Reason=kiln: its instance is shut off [slurm@2020-01-01T00:00:00]", &now[..19]);
    lab.slurm.node("n-0", "DOWN", &reason);
    until("it is back", || updates(&lab) == [down, "scontrol update nodename=n-0 state=resume"]).await;
    lab.stop().await;
}

#[tokio::test]
async fn a_pause_drains_what_is_off_and_its_end_takes_that_back() {
    let mut lab = lab(true);
    let later = jiff::Timestamp::now() + std::time::Duration::from_secs(3600);
    lab.store.pause_group("g", later, "quota is exceeded").unwrap();
    lab.start();
    until("all are drained", || updates(&lab).len() >= 3).await;
    let drain = updates(&lab).remove(0);
    assert!(
        drain.contains("state=drain reason=kiln: g paused until ") && drain.ends_with(": quota is exceeded")
    );
    let reason = drain.split_once("reason=").unwrap().1;
    lab.slurm.node("n-0", "IDLE+CLOUD+DRAIN+POWERED_DOWN", &format!("None Reason={reason} [slurm@1]"));
    lab.store.pause_group("g", jiff::Timestamp::now(), "quota is exceeded").unwrap();
    let lifted =
        ["n-0 state=resume", "n-0 state=POWER_DOWN_FORCE"].map(|w| format!("scontrol update nodename={w}"));
    until("the drain is lifted", || lifted.iter().all(|line| updates(&lab).contains(line))).await;
    lab.stop().await;
}
