//! The reconciler's loop: when it acts, and when it does not.

use kiln_cloud::{Error, InstanceStatus};
use kiln_fleet::store::CloudOperation;
use kiln_wire::labels;

use crate::lab::{Lab, until};

/// A round every second, and a second of grace.
const QUICK: &str = r#","resume_timeout":1,"patience":{"reconcile":1,"grace":1}"#;
const ELASTIC: &str = r#","elastic":{"g":{"places":[]}}"#;
const OFF: &str = "IDLE+CLOUD+POWERED_DOWN";
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
    lab.cloud.put("stray", |_| {});
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
    let later = jiff::Timestamp::now() + std::time::Duration::from_secs(3600);
    lab.store.enqueue(&[NewRequest::new(RequestKind::Reboot, "n-0", later)]).unwrap();
    lab.start();
    two_rounds(&lab).await;
    assert!(lab.cloud.calls().is_empty() && lab.store.findings().unwrap().is_empty());
    let id = lab.store.open_requests().unwrap()[0].id;
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
    kiln_fleet::pause(&lab.store, id).unwrap();
    let mut nodes = lab.store.rollout(id).unwrap().unwrap().nodes;
    (nodes[0].step, nodes[0].begun) = (NodeStep::Done, Some(nodes[0].since));
    // kilnd was ended while it handed the node to Slurm.
    nodes[1].begun = Some(nodes[1].since);
    for node in &nodes {
        lab.store.save_rollout_node(id, node).unwrap();
        lab.cloud.lose(&node.node);
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
    lab.start();
    until("it is started", || lab.cloud.calls() == ["start n-0"]).await;
    assert_eq!(lab.store.cloud_operations().unwrap()["n-0"].0, CloudOperation::Start);
    let now = jiff::Timestamp::now().to_string();
    let rebooted = format!("{} Reason=Node unexpectedly rebooted [slurm@2020-01-01T00:00:00]", &now[..19]);
    lab.slurm.node("n-0", "DOWN", &rebooted);
    until("it is back", || updates(&lab) == ["scontrol update nodename=n-0 state=resume"]).await;
    lab.stop().await;
}

#[tokio::test]
async fn a_pause_drains_what_is_off_and_its_end_takes_that_back() {
    let mut lab = lab(true);
    let soon = jiff::Timestamp::now() + std::time::Duration::from_secs(3);
    lab.store.pause_group("g", soon, "quota is exceeded").unwrap();
    lab.start();
    until("all are drained", || updates(&lab).len() >= 3).await;
    let drain = updates(&lab).remove(0);
    assert!(
        drain.contains("state=drain reason=kiln: g paused until ") && drain.ends_with(": quota is exceeded")
    );
    let reason = drain.split_once("reason=").unwrap().1;
    lab.slurm.node("n-0", "IDLE+CLOUD+DRAIN+POWERED_DOWN", &format!("None Reason={reason} [slurm@1]"));
    let lifted =
        ["n-0 state=resume", "n-0 state=POWER_DOWN_FORCE"].map(|w| format!("scontrol update nodename={w}"));
    until("the drain is lifted", || lifted.iter().all(|line| updates(&lab).contains(line))).await;
    lab.stop().await;
}
