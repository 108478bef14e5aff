//! Powering nodes up and down: what is asked of the cloud, and what Slurm is told.

use std::time::Duration;

use kiln_cloud::{Error, InstanceStatus};
use kiln_fleet::hooks;
use kiln_fleet::store::{CloudOperation, NewRequest, RequestKind, RequestState};
use kiln_wire::labels;

use crate::lab::{Lab, until};

const UP: &str = "ALLOCATED+CLOUD+POWERING_UP";
const OFF: &str = "IDLE+CLOUD+POWERED_DOWN";

/// An elastic group of this many nodes, all off, that may be in two zones.
fn lab(nodes: usize) -> Lab {
    let lab = Lab::new();
    let node = |at: usize| {
        format!(
            r#""e-{at}":{{"group":"e","image":"new","user_data":"u","ssh_key":"k","address":"10.0.0.{at}"}}"#
        )
    };
    let all = (0..nodes).map(node).collect::<Vec<_>>().join(",");
    let text = format!(
        r#"{{"cluster":"c","cloud":{},"nodes":{{{all}}},
        "surroundings":{{"network":"n","security_groups":[],"volumes":[]}},
        "elastic":{{"e":{{"places":[{{"flavor":"f","zone":"a"}},{{"flavor":"f","zone":"b"}}]}}}}}}"#,
        lab.cloud.access()
    );
    std::fs::write(lab.path("fleet.json"), text).unwrap();
    for at in 0..nodes {
        lab.slurm.node(&format!("e-{at}"), UP, "None");
    }
    lab
}

fn edit(lab: &Lab, from: &str, to: &str) {
    let path = lab.path("fleet.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

fn resume(lab: &Lab, nodes: &str) {
    lab.call(|paths| hooks::resume(paths, nodes, None));
}

#[tokio::test]
async fn a_hundred_nodes_take_a_handful_of_calls() {
    let mut lab = lab(100);
    resume(&lab, "e-[0-99]");
    lab.start();
    assert_eq!(lab.settled("e-99").await.state, RequestState::Done);
    lab.stop().await;
    let creations = lab.cloud.calls();
    assert_eq!(creations, ["create 10"; 10]);
    assert_eq!(lab.cloud.instance("e-42").address, Some("10.0.0.42".parse().unwrap()));
    // Listing goes on until all are there, never once per node.
    assert!(lab.cloud.listings() < 100, "{} listings", lab.cloud.listings());
    let told = lab.slurm.calls("scontrol update");
    assert!(told.iter().any(|call| call.contains("e-42") && call.contains("10.0.0.42")), "{told:?}");
    assert!(told.len() <= 30, "{} updates", told.len());
}

#[tokio::test]
async fn asked_twice_it_is_made_once() {
    let mut lab = lab(1);
    resume(&lab, "e-0");
    lab.start();
    lab.settled("e-0").await;
    resume(&lab, "e-0");
    lab.settled("e-0").await;
    assert_eq!(lab.cloud.calls(), ["create 1"]);
    lab.stop().await;
}

#[tokio::test]
async fn a_cloud_without_room_is_asked_in_each_place_and_then_left_alone() {
    let mut lab = lab(2);
    lab.cloud.refuse("create", Error::no_room("quota exceeded"));
    resume(&lab, "e-0");
    lab.start();
    assert_eq!(lab.settled("e-0").await.state, RequestState::Failed);
    assert_eq!(lab.cloud.calls(), ["create 1"; 2]);
    let told = lab.slurm.calls("scontrol update nodename=e-0 state=down");
    assert!(told[0].contains("reason=kiln: the cloud has no room: quota exceeded"), "{told:?}");
    // The next one is not even tried.
    resume(&lab, "e-1");
    let second = lab.settled("e-1").await;
    assert!(second.error.unwrap().contains("e is paused until"), "{:?}", second.state);
    assert_eq!(lab.cloud.calls().len(), 2);
    lab.stop().await;
}

/// All or nothing: a job that cannot have all its nodes does not keep those that it could have.
#[tokio::test]
async fn what_was_made_for_a_job_that_cannot_start_is_taken_back() {
    let mut lab = lab(5);
    lab.cloud.room_for(4);
    let file = lab.path("resume.json");
    std::fs::write(
        &file,
        r#"{"jobs":[{"job_id":7,"nodes":"e-[0-2,4]"},{"job_id":8,"nodes":"e-[2-3]"}],"all_nodes":"e-[0-4]"}"#,
    )
    .unwrap();
    lab.call(|paths| hooks::resume(paths, "e-[0-4]", Some(&file)));
    lab.start();
    let told = |node: &str, state: &str| {
        let all = lab.slurm.calls("scontrol update");
        all.iter().any(|call| call.contains(&format!("nodename={node} state={state}")))
    };
    until("the last one is given up", || told("e-4", "down")).await;
    // What Slurm makes of it: job 7 waits again, and another one has e-1.
    for (node, state) in [("e-0", "IDLE+CLOUD+POWERING_UP"), ("e-1", UP), ("e-2", UP), ("e-3", UP)] {
        lab.slurm.node(node, state, "None");
    }
    until("the node that nobody needs is powered down", || told("e-0", "POWER_DOWN_FORCE")).await;
    lab.settled("e-1").await;
    for kept in ["e-1", "e-2", "e-3"] {
        assert!(!told(kept, "power_down_asap") && !told(kept, "POWER_DOWN_FORCE"), "{kept}");
    }
    let event =
        |node: &str| lab.store.events(Some(node), 9).unwrap().into_iter().find(|e| e.what == "take-back");
    assert!(event("e-0").unwrap().why.ends_with("no room for all nodes of job 7"));
    assert_eq!(event("e-1").unwrap().outcome, "left alone: a job has the node");
    assert_eq!(event("e-3"), None, "job 8 has all its nodes");
    lab.stop().await;
}

/// Control's clock was a year ahead when Slurm asked, and was set right while kilnd was away.
#[tokio::test]
async fn a_request_from_the_future_is_carried_out() {
    let mut lab = lab(1);
    let in_a_year = jiff::Timestamp::now() + Duration::from_secs(365 * 86400);
    lab.store.enqueue(&[NewRequest::new(RequestKind::Resume, "e-0", in_a_year)]).unwrap();
    lab.slurm.node("e-0", UP, "None");
    lab.start();
    assert_eq!(lab.settled("e-0").await.state, RequestState::Done);
    assert!(lab.cloud.has("e-0"));
    lab.stop().await;
}

/// As OpenStack says it: the instance is accepted, and no host is found for it later.
#[tokio::test]
async fn what_was_made_for_a_job_is_taken_back_when_one_node_cannot_be_built() {
    let mut lab = lab(2);
    lab.cloud.build_time(Duration::from_secs(600));
    let file = lab.path("resume.json");
    std::fs::write(&file, r#"{"jobs":[{"job_id":7,"nodes":"e-[0-1]"}],"all_nodes":"e-[0-1]"}"#).unwrap();
    lab.call(|paths| hooks::resume(paths, "e-[0-1]", Some(&file)));
    lab.start();
    let told = |node: &str, state: &str| {
        let all = lab.slurm.calls("scontrol update");
        all.iter().any(|call| call.contains(&format!("nodename={node} state={state}")))
    };
    let creations = || lab.cloud.calls().iter().filter(|call| call.starts_with("create")).count();
    for n in 1..=2 {
        until("both have an instance", || creations() == n && lab.cloud.has("e-0") && lab.cloud.has("e-1"))
            .await;
        lab.cloud.change("e-1", |i| i.status = InstanceStatus::Error { reason: "No valid host".into() });
    }
    until("it is given up", || told("e-1", "down")).await;
    // What Slurm makes of it: the job waits again.
    lab.slurm.node("e-0", "IDLE+CLOUD+POWERING_UP", "None");
    until("the other one is powered down", || told("e-0", "POWER_DOWN_FORCE")).await;
    lab.stop().await;
}

/// Nodes that were not asked for yet are refused like the others. A request that was superseded instead would leave a node
/// that Slurm gives to another job without anybody to create its instance.
#[tokio::test]
async fn what_waits_for_its_turn_is_refused_with_the_rest_of_its_job() {
    let mut lab = lab(21);
    lab.cloud.room_for(5);
    let file = lab.path("resume.json");
    std::fs::write(&file, r#"{"jobs":[{"job_id":7,"nodes":"e-[0-20]"}],"all_nodes":"e-[0-20]"}"#).unwrap();
    lab.call(|paths| hooks::resume(paths, "e-[0-20]", Some(&file)));
    lab.start();
    assert_eq!(lab.settled("e-20").await.state, RequestState::Failed);
    lab.stop().await;
    let events = lab.store.events(Some("e-20"), 9).unwrap();
    assert!(events.iter().all(|e| e.what != "take-back"), "{events:?}");
}

#[tokio::test]
async fn a_hundred_nodes_without_room_are_asked_for_once() {
    let mut lab = lab(100);
    lab.cloud.refuse("create", Error::no_room("quota exceeded"));
    resume(&lab, "e-[0-99]");
    lab.start();
    assert_eq!(lab.settled("e-99").await.state, RequestState::Failed);
    lab.stop().await;
    assert_eq!(lab.cloud.calls(), ["create 10"; 2], "once in each place");
}

#[tokio::test]
async fn what_is_given_up_while_it_waits_for_its_turn_is_not_made() {
    let mut lab = lab(11);
    lab.cloud.hold("create");
    resume(&lab, "e-[0-10]");
    lab.start();
    until("the first are asked for", || lab.cloud.calls() == ["create 10"]).await;
    lab.slurm.node("e-9", "DOWN+CLOUD+POWERED_DOWN", "None");
    lab.call(|paths| hooks::give_up(paths, "e-9"));
    let open = || lab.store.open_requests().unwrap().into_iter().filter(|r| r.node == "e-9");
    let is_given_up = || open().map(|r| r.kind).collect::<Vec<_>>() == [RequestKind::GiveUp];
    until("the request to power up is superseded", is_given_up).await;
    lab.cloud.release("create");
    lab.settled("e-9").await;
    lab.stop().await;
    assert_eq!(lab.cloud.calls(), ["create 10"]);
}

/// It is, where the cloud had been asked already.
#[tokio::test]
async fn what_is_given_up_while_it_is_being_made_goes_again() {
    let mut lab = lab(1);
    lab.cloud.hold("create");
    resume(&lab, "e-0");
    lab.start();
    until("it is asked for", || !lab.cloud.calls().is_empty()).await;
    lab.slurm.node("e-0", "DOWN+CLOUD+POWERED_DOWN", "None");
    lab.call(|paths| hooks::give_up(paths, "e-0"));
    lab.cloud.release("create");
    lab.settled("e-0").await;
    lab.stop().await;
    assert_eq!(lab.cloud.calls(), ["create 1", "delete e-0"]);
}

#[tokio::test]
async fn what_is_powered_down_is_deleted_unless_it_serves_again() {
    let mut lab = lab(2);
    resume(&lab, "e-[0-1]");
    lab.start();
    lab.settled("e-1").await;
    lab.slurm.node("e-0", OFF, "None");
    lab.slurm.node("e-1", "ALLOCATED+CLOUD", "None");
    lab.call(|paths| hooks::suspend(paths, "e-[0-1]"));
    lab.settled("e-1").await;
    assert!(!lab.cloud.has("e-0") && lab.cloud.has("e-1"));
    lab.stop().await;
}

#[tokio::test]
async fn a_node_that_got_a_job_while_others_were_being_deleted_is_kept() {
    let mut lab = lab(2);
    edit(&lab, r#""surroundings""#, r#""concurrency":1,"surroundings""#);
    for node in ["e-0", "e-1"] {
        lab.cloud.put(node, |_| {});
        lab.slurm.node(node, "IDLE+CLOUD+POWERING_DOWN", "None");
    }
    lab.cloud.hold("delete e-0");
    lab.call(|paths| hooks::suspend(paths, "e-[0-1]"));
    lab.start();
    until("the first is being deleted", || lab.cloud.calls() == ["delete e-0"]).await;
    lab.slurm.node("e-1", "ALLOCATED+CLOUD", "None");
    lab.cloud.release("delete e-0");
    lab.settled("e-1").await;
    lab.stop().await;
    assert!(!lab.cloud.has("e-0") && lab.cloud.has("e-1"), "{:?}", lab.cloud.calls());
}

#[tokio::test]
async fn a_node_that_came_too_late_and_took_a_job_is_kept() {
    let mut lab = lab(1);
    lab.cloud.put("e-0", |_| {});
    // kilnd was away when Slurm gave the node up.
    lab.call(|paths| hooks::give_up(paths, "e-0"));
    lab.slurm.node("e-0", "ALLOCATED+CLOUD", "None");
    lab.start();
    lab.settled("e-0").await;
    assert!(lab.cloud.has("e-0"));
    lab.stop().await;
}

/// The cloud does not take the deletion; meanwhile the node comes up late, and a job runs there.
#[tokio::test]
async fn a_deletion_that_was_put_off_spares_a_node_that_is_at_work() {
    let mut lab = lab(1);
    lab.cloud.put("e-0", |_| {});
    lab.slurm.node("e-0", "DOWN+CLOUD", "None");
    lab.cloud.refuse("delete", Error::busy(None));
    lab.call(|paths| hooks::give_up(paths, "e-0"));
    lab.start();
    until("the deletion has been put off", || {
        lab.store.open_requests().unwrap().first().is_some_and(|request| request.error.is_some())
    })
    .await;
    lab.slurm.node("e-0", "ALLOCATED+CLOUD", "None");
    lab.cloud.heal("delete");
    lab.settled("e-0").await;
    lab.stop().await;
    assert!(lab.cloud.has("e-0"), "{:?}", lab.cloud.calls());
}

#[tokio::test]
async fn powered_down_and_up_again_while_the_daemon_was_away_is_a_fresh_start() {
    let mut lab = lab(1);
    resume(&lab, "e-0");
    lab.start();
    lab.settled("e-0").await;
    lab.stop().await;
    let old = lab.cloud.instance("e-0").created;
    lab.call(|paths| hooks::suspend(paths, "e-0"));
    resume(&lab, "e-0");
    lab.start();
    lab.settled("e-0").await;
    until("there is a new instance", || lab.cloud.has("e-0") && lab.cloud.instance("e-0").created > old)
        .await;
    assert_eq!(lab.cloud.calls(), ["create 1", "delete e-0", "create 1"]);
    lab.stop().await;
}

/// An image whose slurmd does not start: the cloud makes instances, and none of them joins.
#[tokio::test]
async fn a_group_whose_nodes_never_come_up_pauses_until_one_does() {
    let mut lab = lab(7);
    // They have had the time that they need, however little that was.
    edit(&lab, r#""surroundings""#, r#""resume_timeout":0,"patience":{"reconcile":1},"surroundings""#);
    resume(&lab, "e-[0-6]");
    lab.start();
    let failed = |node: usize| {
        lab.slurm.node(&format!("e-{node}"), "DOWN+CLOUD+NOT_RESPONDING", "None");
        lab.call(|paths| hooks::give_up(paths, &format!("e-{node}")));
    };
    let records = || lab.store.failure_records().unwrap();
    lab.settled("e-6").await;
    assert!(records().is_empty());
    (0..4).for_each(failed);
    lab.settled("e-3").await;
    // An instance is no proof.
    assert_eq!(records()["e"].failures, 4);
    assert!(!records()["e"].is_paused());
    failed(4);
    lab.settled("e-4").await;
    assert!(records()["e"].is_paused());
    resume(&lab, "e-0");
    lab.slurm.node("e-0", UP, "None");
    let refused = lab.settled("e-0").await.error.unwrap();
    assert!(
        refused.contains("e is paused until") && refused.ends_with("do not come up in time"),
        "{refused}"
    );
    assert_eq!(records()["e"].failures, 5, "what is not tried does not fail");
    // One from before proves nothing either; one that was made since does.
    lab.slurm.node("e-6", "IDLE+CLOUD", "None");
    lab.store.forget_instance("e-5").unwrap();
    lab.slurm.node("e-5", "IDLE+CLOUD", "None");
    until("the failures are over", || lab.store.failure_records().unwrap().is_empty()).await;
    let told = lab.store.events(Some(""), 99).unwrap();
    assert!(told.iter().any(|e| e.why == "e-5 came into service"), "{told:?}");
    lab.stop().await;
}

#[tokio::test]
async fn each_group_is_charged_with_its_own_failures() {
    let mut lab = lab(3);
    edit(&lab, r#""e-0":{"group":"e""#, r#""e-0":{"group":"f""#);
    edit(&lab, r#""elastic":{"#, r#""elastic":{"f":{"places":[{"flavor":"f"}]},"#);
    lab.cloud.break_builds(Some("no host"));
    resume(&lab, "e-[0-2]");
    lab.start();
    lab.settled("e-0").await;
    lab.stop().await;
    let records = lab.store.failure_records().unwrap();
    assert_eq!((records["e"].failures, records["f"].failures), (2, 1), "{records:?}");
}

/// The old instance is still being deleted, or the cloud is overloaded: neither is a build that failed.
#[tokio::test]
async fn a_cloud_that_is_busy_is_no_reason_to_go_elsewhere() {
    let mut lab = lab(1);
    edit(&lab, r#"{"flavor":"f","zone":"a"}"#, r#"{"flavor":"cheap"}"#);
    edit(&lab, r#"{"flavor":"f","zone":"b"}"#, r#"{"flavor":"dear"}"#);
    lab.cloud.refuse("create", Error::conflict("still being deleted"));
    resume(&lab, "e-0");
    lab.start();
    until("it was tried three times", || lab.cloud.calls().len() == 3).await;
    lab.cloud.heal("create");
    let request = lab.settled("e-0").await;
    lab.stop().await;
    assert_eq!((lab.cloud.instance("e-0").flavor.as_str(), request.attempts), ("cheap", 1));
    let told = lab.store.events(Some("e-0"), 99).unwrap();
    assert_eq!(told.iter().filter(|e| e.outcome == "postponed").count(), 1, "{told:?}");
    assert_eq!(lab.store.cloud_operations().unwrap()["e-0"].0, CloudOperation::Create);
}

/// No answer may mean that the instance is being made: whoever asks again says that it is the same launch.
#[tokio::test]
async fn a_launch_has_one_name_over_attempts_and_restarts() {
    let mut lab = lab(1);
    lab.cloud.refuse("create", Error::unanswered("no answer"));
    resume(&lab, "e-0");
    lab.start();
    until("it was tried twice", || lab.cloud.calls().len() == 2).await;
    lab.stop().await;
    let before = lab.cloud.launches();
    lab.start();
    until("it was tried again", || lab.cloud.launches().len() > before.len()).await;
    lab.cloud.break_builds(Some("no host"));
    lab.cloud.heal("create");
    until("another one is being built", || lab.cloud.calls().contains(&"delete e-0".to_string())).await;
    lab.cloud.break_builds(None);
    assert_eq!(lab.settled("e-0").await.state, RequestState::Done);
    lab.stop().await;
    let mut names = lab.cloud.launches();
    assert!(before.iter().chain(&names[..=before.len()]).all(|name| *name == before[0]), "{names:?}");
    names.dedup();
    // What could not be built is over: the second one is a launch of its own, in the other place.
    assert_eq!(names.len(), 2, "{names:?}");
}

/// An operator's `sbatch --reboot`, of which 22.05 tells the resume hook.
#[tokio::test]
async fn a_node_that_is_up_and_is_to_boot_gets_a_new_instance() {
    let mut lab = lab(1);
    lab.cloud.put("e-0", |_| {});
    lab.slurm.node("e-0", "IDLE+CLOUD", "2020-01-01T00:00:00");
    lab.start();
    until("kilnd knows it", || lab.store.known_instances().unwrap().contains_key("e-0")).await;
    // As exact as Slurm is. It asks for a boot after that one.
    let booted = lab.store.known_instances().unwrap()["e-0"].first_seen - Duration::from_secs(1);
    lab.slurm.node("e-0", UP, &booted.to_string()[..19]);
    until("time has passed", || jiff::Timestamp::now() > booted + Duration::from_secs(2)).await;
    resume(&lab, "e-0");
    lab.settled("e-0").await;
    lab.stop().await;
    assert_eq!(lab.cloud.calls(), ["delete e-0", "create 1"]);
}

#[tokio::test]
async fn what_slurm_asked_last_counts_whatever_came_between_and_whenever_it_arrives() {
    let mut lab = lab(2);
    resume(&lab, "e-[0-1]");
    lab.call(|paths| hooks::give_up(paths, "e-0"));
    // An administrator resumes e-0; Slurm asks for it again.
    resume(&lab, "e-0");
    // What had been asked of e-1 before lay in the spool.
    let before = jiff::Timestamp::now() - std::time::Duration::from_secs(60);
    lab.store.enqueue(&[NewRequest::new(RequestKind::Suspend, "e-1", before)]).unwrap();
    lab.start();
    lab.settled("e-1").await;
    lab.stop().await;
    assert!(lab.cloud.has("e-0") && lab.cloud.has("e-1"), "{:?}", lab.cloud.calls());
}

/// A rebuild that takes longer than Slurm waits, and an administrator's `state=POWER_DOWN`.
#[tokio::test]
async fn a_fixed_node_keeps_its_instance_whatever_slurm_calls() {
    let mut lab = Lab::new();
    lab.slurm.node("n-0", "DOWN+NOT_RESPONDING", "None");
    lab.slurm.node("n-1", "IDLE+POWERED_DOWN", "None");
    lab.call(|paths| hooks::give_up(paths, "n-0"));
    lab.call(|paths| hooks::suspend(paths, "n-1"));
    lab.start();
    for node in ["n-0", "n-1"] {
        assert_eq!(lab.settled(node).await.state, RequestState::Done);
        let told = lab.store.events(Some(node), 9).unwrap().remove(0);
        assert!(told.outcome.contains("a fixed node is never powered down"), "{told:?}");
    }
    lab.stop().await;
    assert!(lab.cloud.calls().is_empty(), "{:?}", lab.cloud.calls());
}

#[tokio::test]
async fn what_is_not_labelled_as_a_compute_nodes_is_not_deleted() {
    let mut lab = lab(1);
    lab.cloud.put("e-0", |i| _ = i.labels.insert(labels::ROLE.into(), "login".into()));
    lab.slurm.node("e-0", OFF, "None");
    lab.call(|paths| hooks::suspend(paths, "e-0"));
    lab.start();
    lab.settled("e-0").await;
    lab.stop().await;
    assert!(lab.cloud.has("e-0") && lab.cloud.calls().is_empty());
}

/// As Nova does with the servers of a cell that does not answer.
#[tokio::test]
async fn a_node_whose_instance_a_list_lacks_gets_no_second_one() {
    let mut lab = lab(1);
    resume(&lab, "e-0");
    lab.start();
    lab.settled("e-0").await;
    assert_eq!(lab.cloud.calls(), ["create 1"]);
    lab.cloud.hide("e-0");
    lab.cloud.refuse("show", Error::failed("the cell does not answer"));
    let listings = lab.cloud.listings();
    resume(&lab, "e-0");
    until("several rounds have gone by", || lab.cloud.listings() > listings + 3).await;
    assert_eq!(lab.cloud.calls(), ["create 1"]);
    assert_eq!(lab.store.open_requests().unwrap().len(), 1, "nobody can say whether it is there");
    // Powered down meanwhile: that is not done before the instance is gone.
    lab.slurm.node("e-0", OFF, "None");
    lab.call(|paths| hooks::suspend(paths, "e-0"));
    let listings = lab.cloud.listings();
    until("several rounds have gone by", || lab.cloud.listings() > listings + 3).await;
    assert_eq!(lab.store.open_requests().unwrap().len(), 1);
    lab.cloud.heal("show");
    assert_eq!(lab.settled("e-0").await.state, RequestState::Done);
    assert_eq!(lab.cloud.calls(), ["create 1", "delete e-0"]);
    lab.stop().await;
}
