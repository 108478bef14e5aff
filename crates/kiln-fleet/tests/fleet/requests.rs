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
