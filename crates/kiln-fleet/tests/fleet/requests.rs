//! From the hook to the cloud.

use std::time::Duration;

use kiln_cloud::{Error, InstanceStatus};
use kiln_fleet::store::{NewRequest, RequestKind, RequestState};

use crate::lab::{Lab, until};

#[tokio::test]
async fn another_image_is_a_rebuild_and_the_same_a_reboot() {
    let mut lab = Lab::new();
    // The daemon is not there yet: nothing is lost.
    lab.hook("n-0");
    lab.start();
    assert_eq!(lab.settled("n-0").await.state, RequestState::Done);
    assert_eq!(lab.cloud.calls(), ["rebuild n-0 new"]);
    let labels = lab.cloud.instance("n-0").labels;
    assert_eq!(labels["mine"], "kept");
    assert_eq!(labels["kiln_target_image"], "new");
    lab.hook("n-0");
    assert_eq!(lab.settled("n-0").await.state, RequestState::Done);
    assert_eq!(lab.cloud.calls(), ["rebuild n-0 new", "reboot n-0"]);
    lab.stop().await;
}

#[tokio::test]
async fn a_new_target_needs_no_restart() {
    let mut lab = Lab::new();
    lab.start();
    lab.hook("n-[0-1]");
    lab.settled("n-1").await;
    lab.target("newer-still");
    // Several rounds of the daemon.
    tokio::time::sleep(Duration::from_millis(200)).await;
    lab.hook("n-1");
    lab.settled("n-1").await;
    assert!(lab.cloud.calls().contains(&"rebuild n-1 newer-still".to_string()));
    lab.stop().await;
}

#[tokio::test]
async fn a_restart_does_not_rebuild_again() {
    let mut lab = Lab::new();
    lab.cloud.build_time(Duration::from_secs(2));
    lab.start();
    lab.hook("n-0");
    until("the rebuild has begun", || lab.cloud.instance("n-0").status == InstanceStatus::Rebuilding).await;
    lab.stop().await;
    assert_eq!(lab.store.open_requests().unwrap()[0].state, RequestState::Working);
    lab.start();
    assert_eq!(lab.settled("n-0").await.state, RequestState::Done);
    assert_eq!(lab.cloud.calls(), ["rebuild n-0 new"]);
    lab.stop().await;
}

#[tokio::test]
async fn a_refusal_drains_the_node() {
    let mut lab = Lab::new();
    lab.cloud.refuse("rebuild", Error::refused("image new is gone"));
    lab.start();
    lab.hook("n-0");
    let request = lab.settled("n-0").await;
    assert_eq!(request.state, RequestState::Failed);
    until("the node is drained", || !lab.slurm.calls("scontrol update").is_empty()).await;
    let drain = &lab.slurm.calls("scontrol update")[0];
    assert!(
        drain.starts_with("scontrol update nodename=n-0 state=drain reason=kiln: rebuild failed: ")
            && drain.ends_with("image new is gone"),
        "{drain}"
    );
    lab.stop().await;
}

/// slurmctld is away just then: no job may start on the node when it is back.
#[tokio::test]
async fn a_refusal_that_slurm_did_not_hear_of_is_told_again() {
    let mut lab = Lab::new();
    lab.cloud.refuse("rebuild", Error::refused("image new is gone"));
    lab.slurm.deaf(true);
    lab.start();
    lab.hook("n-2");
    let error = || lab.store.open_requests().unwrap().first().and_then(|request| request.error.clone());
    until("Slurm could not be told", || error().is_some_and(|e| e.contains("cannot drain the node"))).await;
    lab.slurm.deaf(false);
    assert_eq!(lab.settled("n-2").await.state, RequestState::Failed);
    assert!(lab.slurm.calls("scontrol update nodename=n-2 state=drain").len() > 1);
    lab.stop().await;
}

#[tokio::test]
async fn an_administrators_drain_is_left_alone() {
    let mut lab = Lab::new();
    lab.slurm.node("n-0", "IDLE+DRAIN", "2020-01-01T00:00:00 Reason=bad fan [root@2020-01-01T00:00:00]");
    lab.start();
    // Neither a success ends it nor a failure gives it another reason.
    lab.hook("n-0");
    assert_eq!(lab.settled("n-0").await.state, RequestState::Done);
    lab.stop().await;
    lab.cloud.refuse("rebuild", Error::refused("image new is gone"));
    lab.target("other");
    lab.start();
    lab.hook("n-0");
    assert_eq!(lab.settled("n-0").await.state, RequestState::Failed);
    lab.stop().await;
    assert!(lab.slurm.calls("scontrol update").is_empty());
}

#[tokio::test]
async fn a_reboot_that_slurm_gave_up_waiting_for_is_passed_over() {
    let mut lab = Lab::new();
    let an_hour_ago = jiff::Timestamp::now() - Duration::from_secs(3600);
    let old = |node: &str| NewRequest::new(RequestKind::Reboot, node, an_hour_ago);
    lab.store.enqueue(&[old("n-0"), old("n-1")]).unwrap();
    // Users' jobs may be on n-0; n-1 is waited for.
    lab.slurm.node("n-1", "ALLOCATED+POWERING_UP", "2020-01-01T00:00:00");
    lab.start();
    lab.settled("n-1").await;
    assert_eq!(lab.cloud.calls(), ["rebuild n-1 new"]);
    lab.stop().await;
}

/// The cloud was busy for long; meanwhile Slurm gave the node up, it came back, and a user's job runs there.
#[tokio::test]
async fn a_rebuild_that_was_put_off_spares_a_node_that_is_at_work_again() {
    let mut lab = Lab::new();
    lab.cloud.refuse("rebuild", Error::busy(None));
    lab.start();
    lab.hook("n-0");
    // The other kind: of a rollout, without Slurm, for a node that Kiln had drained.
    lab.slurm.node("n-1", "IDLE+DRAIN", "2020-01-01T00:00:00 Reason=kiln: x [slurm@2020-01-01T00:00:00]");
    let direct = NewRequest::new(RequestKind::Rebuild, "n-1", jiff::Timestamp::now());
    lab.store.enqueue(&[NewRequest { image: Some("new".into()), ..direct }]).unwrap();
    until("both have been put off", || {
        let open = lab.store.open_requests().unwrap();
        open.len() == 2 && open.iter().all(|r| r.operation.is_some() && r.error.is_some())
    })
    .await;
    // What has begun by then may have read Slurm's old words, and is refused once more.
    until("nothing is in work", || {
        lab.store.open_requests().unwrap().iter().all(|r| r.state != RequestState::Working)
    })
    .await;
    lab.slurm.node("n-0", "ALLOCATED", "2020-01-01T00:00:00");
    lab.slurm.node("n-1", "MIXED", "2020-01-01T00:00:00");
    lab.cloud.heal("rebuild");
    let words = |request: &kiln_fleet::store::Request| request.called_off().map(String::from);
    let reboot = lab.settled("n-0").await;
    assert_eq!(
        words(&reboot).as_deref(),
        Some("skipped: Slurm does not wait for this reboot any more"),
        "{reboot:?}"
    );
    let rebuild = lab.settled("n-1").await;
    assert_eq!(
        words(&rebuild).as_deref(),
        Some("not rebuilt: it is back in service, or jobs run there"),
        "{rebuild:?}"
    );
    for node in ["n-0", "n-1"] {
        assert_eq!(lab.cloud.instance(node).image.as_deref(), Some("old"));
    }
    assert!(lab.slurm.calls("scontrol update").is_empty());
    lab.stop().await;
}

/// The store refuses to write down that a request is done, as a full disk does.
#[tokio::test]
async fn a_request_whose_end_is_not_written_down_is_taken_up_again() {
    let mut lab = Lab::new();
    let store = rusqlite::Connection::open(lab.path("store.db")).unwrap();
    store.busy_timeout(Duration::from_secs(5)).unwrap();
    let full = "CREATE TRIGGER full BEFORE UPDATE ON requests WHEN NEW.state = 'done'
                BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END";
    store.execute_batch(full).unwrap();
    lab.start();
    lab.hook("n-0");
    until("it is taken up again", || {
        lab.store.open_requests().unwrap().first().is_some_and(|request| request.attempts > 1)
    })
    .await;
    store.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(lab.settled("n-0").await.state, RequestState::Done);
    assert_eq!(lab.cloud.calls(), ["rebuild n-0 new"]);
    lab.stop().await;
}

/// The cloud is out of reach for too long; meanwhile Slurm has put the node back to work.
#[tokio::test]
async fn a_request_that_is_given_up_drains_no_node_that_is_at_work_again() {
    let mut lab = Lab::new();
    lab.cloud.refuse("list", Error::busy(None));
    let an_hour_ago = jiff::Timestamp::now() - Duration::from_secs(3600);
    lab.store.enqueue(&["n-0", "n-1"].map(|n| NewRequest::new(RequestKind::Reboot, n, an_hour_ago))).unwrap();
    let store = rusqlite::Connection::open(lab.path("store.db")).unwrap();
    store.execute_batch("UPDATE requests SET attempts = 20").unwrap();
    lab.slurm.node("n-0", "ALLOCATED", "2020-01-01T00:00:00");
    lab.slurm.waits_for_boot("n-1");
    lab.start();
    let spared = lab.settled("n-0").await;
    assert!(spared.called_off().is_some_and(|why| why.contains("Slurm does not wait")), "{spared:?}");
    assert_eq!(lab.settled("n-1").await.state, RequestState::Failed);
    until("the other one is drained", || !lab.slurm.calls("scontrol update").is_empty()).await;
    lab.stop().await;
    let drains = lab.slurm.calls("scontrol update");
    assert!(drains.iter().all(|call| call.contains("nodename=n-1 state=drain")), "{drains:?}");
}

/// As Nova does with the servers of a cell that does not answer.
#[tokio::test]
async fn an_instance_that_a_list_lacks_is_asked_for_by_its_id() {
    let mut lab = Lab::new();
    lab.start();
    until("kilnd has seen the instances", || lab.store.known_instances().unwrap().len() == 3).await;
    lab.cloud.hide("n-0");
    lab.cloud.refuse("show", Error::failed("the cell does not answer"));
    lab.hook("n-0");
    until("it is put off", || lab.store.open_requests().unwrap().iter().any(|r| r.error.is_some())).await;
    let open = lab.store.open_requests().unwrap();
    assert!(open[0].error.as_ref().unwrap().contains("does not say whether it is gone"), "{open:?}");
    assert!(lab.slurm.calls("scontrol update").is_empty() && lab.cloud.calls().is_empty());
    // It shows what it knows without that cell: no labels.
    let labels = lab.cloud.instance("n-0").labels;
    lab.cloud.change("n-0", |instance| instance.labels.clear());
    lab.cloud.heal("show");
    let error = || lab.store.open_requests().unwrap().first().and_then(|request| request.error.clone());
    until("it is put off again", || error().is_some_and(|e| e.contains("without its labels"))).await;
    assert!(lab.slurm.calls("scontrol update").is_empty() && lab.cloud.calls().is_empty());
    lab.cloud.change("n-0", |instance| instance.labels = labels);
    assert_eq!(lab.settled("n-0").await.state, RequestState::Done);
    assert_eq!(lab.cloud.calls(), ["rebuild n-0 new"]);
    lab.stop().await;
}
