//! Rollouts from start to end; the test plays slurmctld and the nodes.

use kiln_cloud::InstanceStatus;
use kiln_fleet::{report, start};
use kiln_wire::rollout::{NodeStep, Options, RolloutId, RolloutReport, RolloutState, Strategy};

use crate::lab::{Lab, until};

/// What Slurm and the node do with a job, up to its end in this state.
async fn play(lab: &Lab, job: u64, node: &str, end: &str) {
    lab.slurm.job_becomes(job, "CONFIGURING");
    lab.hook(node);
    until("the node is rebuilt", || {
        let instance = lab.cloud.instance(node);
        instance.status == InstanceStatus::Active && instance.image.as_deref() != Some("old")
            || lab.cloud.calls().contains(&format!("reboot {node}"))
    })
    .await;
    lab.slurm.registers(node);
    lab.slurm.job_becomes(job, "RUNNING");
    lab.slurm.job_becomes(job, end);
}

async fn begin(lab: &Lab, options: Options) -> RolloutId {
    start(&lab.store, &lab.fleet(), &lab.commands(), options).await.unwrap()
}

async fn ended(lab: &Lab, id: RolloutId) -> RolloutReport {
    let get = || report(&lab.store, id).unwrap();
    until("the rollout ends", || !get().rollout.state.is_open()).await;
    get()
}

async fn jobs(lab: &Lab, many: usize) -> Vec<(u64, String, String)> {
    until("jobs are submitted", || lab.slurm.jobs().len() >= many).await;
    lab.slurm.jobs()
}

#[tokio::test]
async fn a_canary_then_the_others_then_nothing_left() {
    let mut lab = Lab::new();
    lab.start();
    let options = Options { canary: 1, check: Some("true".into()), ..Options::default() };
    let id = begin(&lab, options).await;
    let first = jobs(&lab, 1).await;
    assert_eq!(first.len(), 1);
    play(&lab, first[0].0, "n-0", "COMPLETED").await;
    for (job, _, comment) in &jobs(&lab, 3).await[1..] {
        play(&lab, *job, &comment[comment.len() - 3..], "COMPLETED").await;
    }
    let report = ended(&lab, id).await;
    assert_eq!((report.done, report.failed), (3, 0), "{report:?}");
    assert_eq!(lab.cloud.calls().len(), 3);
    let line = &lab.slurm.calls("sbatch")[0];
    assert!(
        line.contains("--job-name=rebuild-n-0 --partition=rebuild") && line.contains("--reboot"),
        "{line}"
    );
    // As long as the partition allows: sites may refuse jobs that do not say how long they take.
    assert!(line.contains(" --time=00:20:00 "), "{line}");

    let again = begin(&lab, Options::default()).await;
    assert_eq!(ended(&lab, again).await.skipped, 3);
    lab.stop().await;
}

/// In such a release a job without one would wait for ever.
#[tokio::test]
async fn jobs_have_a_constraint_where_slurm_needs_one() {
    for (release, options, expected) in [
        ("23.11.4", Options::default(), Some("--constraint=kiln")),
        ("23.11.5", Options::default(), None),
        ("23.11.4", Options { no_reboot: true, ..Options::default() }, None),
        (
            "23.11.4",
            Options { sbatch_options: vec!["--constraint=site".into()], ..Options::default() },
            Some("--constraint=site"),
        ),
    ] {
        let mut lab = Lab::new();
        lab.slurm.is_of_release(release);
        lab.start();
        begin(&lab, options).await;
        jobs(&lab, 1).await;
        let line = &lab.slurm.calls("sbatch")[0];
        let seen: Vec<&str> = line.split(' ').filter(|word| word.starts_with("--constraint")).collect();
        assert_eq!(seen, Vec::from_iter(expected), "{release}: {line}");
        lab.stop().await;
    }
}

#[tokio::test]
async fn a_failed_check_halts_it_and_takes_the_node_back() {
    let mut lab = Lab::new();
    lab.start();
    let options =
        Options { canary: 1, rollback_on_halt: true, check: Some("false".into()), ..Options::default() };
    let id = begin(&lab, options).await;
    let job = jobs(&lab, 1).await[0].0;
    play(&lab, job, "n-0", "FAILED").await;
    // In service still, as this Slurm knows no drains: the way back is through Slurm.
    let back = jobs(&lab, 2).await[1].clone();
    assert_eq!(back.2, "kiln-rollout-1-back-1-n-0");
    lab.slurm.job_becomes(back.0, "CONFIGURING");
    lab.hook("n-0");
    until("it has its old image", || lab.cloud.instance("n-0").image.as_deref() == Some("old")).await;
    until("it is built", || lab.cloud.instance("n-0").status == InstanceStatus::Active).await;
    lab.slurm.registers("n-0");
    lab.slurm.job_becomes(back.0, "COMPLETED");
    let report = ended(&lab, id).await;
    assert!(matches!(report.rollout.state, RolloutState::RolledBack { .. }), "{report:?}");
    assert_eq!(lab.cloud.calls(), ["rebuild n-0 new", "rebuild n-0 old"]);
    assert!(lab.slurm.calls("scontrol update")[0].contains("reason=kiln: rollout 1: job 1 failed"));
    assert_eq!(lab.slurm.calls("sbatch").len(), 2);
    lab.stop().await;
}

/// slurmctld is away when the node is to be drained.
#[tokio::test]
async fn a_node_has_failed_when_it_is_out_of_service() {
    let mut lab = Lab::new();
    lab.start();
    let options = Options { canary: 1, check: Some("false".into()), ..Options::default() };
    let id = begin(&lab, options).await;
    let job = jobs(&lab, 1).await[0].0;
    lab.slurm.deaf(true);
    play(&lab, job, "n-0", "FAILED").await;
    let drains = || lab.slurm.calls("scontrol update nodename=n-0 state=drain").len();
    until("Slurm is asked again", || drains() > 1).await;
    let failed = |report: &RolloutReport| {
        report.rollout.nodes.iter().any(|node| matches!(node.step, NodeStep::Failed { .. }))
    };
    assert!(!failed(&report(&lab.store, id).unwrap()));
    lab.slurm.deaf(false);
    assert!(failed(&ended(&lab, id).await));
    lab.stop().await;
}

#[tokio::test]
async fn a_job_that_ran_without_a_rebuild_is_submitted_again() {
    let mut lab = Lab::new();
    lab.start();
    let id = begin(&lab, Options { nodes: vec!["n-1".into()], ..Options::default() }).await;
    lab.slurm.job_becomes(jobs(&lab, 1).await[0].0, "COMPLETED");
    let second = jobs(&lab, 2).await[1].0;
    play(&lab, second, "n-1", "COMPLETED").await;
    let report = ended(&lab, id).await;
    assert_eq!((report.rollout.nodes[0].tries, report.done), (2, 1));
    lab.stop().await;
}

#[tokio::test]
async fn a_restart_submits_nothing_twice() {
    let mut lab = Lab::new();
    lab.start();
    let id = begin(&lab, Options { max_unavailable: 1, ..Options::default() }).await;
    jobs(&lab, 1).await;
    lab.stop().await;
    // As if the daemon had been killed before it could write the job's number down.
    let mut rollout = lab.store.rollout(id).unwrap().unwrap();
    rollout.nodes[0].step = NodeStep::Pending;
    lab.store.save_rollout_node(id, &rollout.nodes[0]).unwrap();
    lab.start();
    until("the job is found again", || {
        report(&lab.store, id).unwrap().rollout.nodes[0].step == NodeStep::Submitted { job: 1 }
    })
    .await;
    assert_eq!(lab.slurm.jobs().len(), 1);
    lab.stop().await;
}

#[tokio::test]
async fn pausing_and_aborting_leave_nodes_untouched() {
    let mut lab = Lab::new();
    lab.start();
    let id = begin(&lab, Options::default()).await;
    jobs(&lab, 3).await;
    kiln_fleet::pause(&lab.store, id, "ann").unwrap();
    until("all jobs are cancelled", || report(&lab.store, id).unwrap().pending == 3).await;
    kiln_fleet::resume(&lab.store, id, "ann").unwrap();
    jobs(&lab, 6).await;
    kiln_fleet::abort(&lab.store, id, "ann").unwrap();
    let report = ended(&lab, id).await;
    assert_eq!((report.skipped, report.rollout.state), (3, RolloutState::Aborted));
    assert!(lab.cloud.calls().is_empty());
    assert!(kiln_fleet::resume(&lab.store, id, "ann").is_err());
    lab.stop().await;
}

#[tokio::test]
async fn jobs_are_submitted_as_a_user_who_may() {
    let mut lab = Lab::new();
    let as_user = |user: &str, partition: &str, no_reboot| Options {
        user: Some(user.into()),
        partitions: vec![partition.into()],
        nodes: vec!["n-0".into()],
        no_reboot,
        ..Options::default()
    };
    for (options, why) in [
        (as_user("operator", "rebuild", false), "which is for root alone"),
        (as_user("alice", "test", false), "may not have nodes rebooted"),
        (as_user("root", "test", true), "leave --user out"),
        (as_user("-u", "test", true), "is not the name of a user"),
    ] {
        let refused = start(&lab.store, &lab.fleet(), &lab.commands(), options).await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    lab.start();
    begin(&lab, as_user("alice", "test", true)).await;
    jobs(&lab, 1).await;
    let call = &lab.slurm.calls("setpriv")[0];
    assert!(call.starts_with("setpriv --reuid=alice --regid=4711 "), "{call}");
    assert!(call.contains("/sbatch --parsable") && call.contains("--partition=test"), "{call}");
    lab.stop().await;
}

/// Drained an hour after the rollout began, and before its turn came.
#[tokio::test]
async fn a_node_that_is_drained_meanwhile_is_skipped() {
    const BAD: &str = "None Reason=bad DIMM [root@2020-01-01T00:00:00]";
    for elastic in [true, false] {
        let mut lab = Lab::new();
        if elastic {
            lab.fleet_file("new", r#","elastic":{"g":{"places":[]}}"#);
        }
        lab.start();
        let strategy = if elastic { Strategy::Job } else { Strategy::Drain };
        let nodes = vec!["n-0".into(), "n-1".into()];
        let id = begin(&lab, Options { max_unavailable: 1, nodes, strategy, ..Options::default() }).await;
        let step = |at: usize| report(&lab.store, id).unwrap().rollout.nodes[at].step.clone();
        until("the first has its turn", || step(0) == NodeStep::Draining).await;
        lab.slurm.node("n-1", "IDLE+DRAIN", BAD);
        if elastic {
            lab.cloud.lose("n-0");
            lab.slurm.node("n-0", "IDLE+CLOUD+POWERED_DOWN", "None");
        } else {
            lab.hook("n-0");
            until("it is built", || lab.cloud.instance("n-0").image.as_deref() == Some("new")).await;
            until("it is there", || lab.cloud.instance("n-0").status == InstanceStatus::Active).await;
            lab.slurm.registers("n-0");
        }
        let report = ended(&lab, id).await;
        let reason = "drained by others: bad DIMM".to_string();
        assert_eq!(report.rollout.nodes[1].step, NodeStep::Skipped { reason }, "{report:?}");
        let touched = [lab.slurm.calls("scontrol update"), lab.slurm.calls("scontrol reboot")].concat();
        assert!(touched.iter().all(|call| !call.contains("n-1")), "{touched:?}");
        lab.stop().await;
    }
}

/// The cloud's clock is another than control's: which instance is older than a rollout is told by control's alone.
#[tokio::test]
async fn a_rollout_does_not_believe_the_clouds_clock() {
    for shift in [-3600, 3600] {
        let mut lab = Lab::new();
        lab.fleet_file("new", r#","elastic":{"g":{"places":[]}}"#);
        let by_the_cloud = || jiff::Timestamp::now() + jiff::SignedDuration::from_secs(shift);
        lab.cloud.change("n-0", |instance| instance.created = by_the_cloud());
        lab.start();
        let id = begin(&lab, Options { nodes: vec!["n-0".into()], ..Options::default() }).await;
        let step = || report(&lab.store, id).unwrap().rollout.nodes[0].step.clone();
        until("Slurm is asked to power it down", || {
            step() == NodeStep::Done || !lab.slurm.calls("scontrol update").is_empty()
        })
        .await;
        assert_ne!(step(), NodeStep::Done, "its old instance is still there: {shift}");
        // It goes, and another comes at once.
        let old = lab.cloud.instance("n-0");
        lab.cloud.lose("n-0");
        let new = kiln_cloud::Instance { id: "another".into(), created: by_the_cloud(), ..old };
        lab.cloud.put("another", |instance| *instance = new);
        assert_eq!(ended(&lab, id).await.done, 1, "{shift}");
        lab.stop().await;
    }
}

/// Kiln had drained it when the rollout began; before its turn an administrator resumed it, and a job runs there.
#[tokio::test]
async fn a_node_that_is_resumed_meanwhile_is_rebuilt_through_slurm() {
    let mut lab = Lab::new();
    lab.slurm.node("n-1", "IDLE+DRAIN", "2020-01-01T00:00:00 Reason=kiln: x [slurm@2020-01-01T00:00:00]");
    lab.start();
    let nodes = vec!["n-0".into(), "n-1".into()];
    let id = begin(&lab, Options { max_unavailable: 1, nodes, ..Options::default() }).await;
    let first = jobs(&lab, 1).await[0].0;
    lab.slurm.node("n-1", "MIXED", "2020-01-01T00:00:00");
    play(&lab, first, "n-0", "COMPLETED").await;
    let second = jobs(&lab, 2).await[1].0;
    assert_eq!(lab.cloud.calls(), ["rebuild n-0 new"]);
    play(&lab, second, "n-1", "COMPLETED").await;
    assert_eq!(ended(&lab, id).await.done, 2);
    lab.stop().await;
}

/// The same, but it stays drained.
#[tokio::test]
async fn a_node_that_kiln_drained_is_rebuilt_without_a_job() {
    let mut lab = Lab::new();
    lab.slurm.node("n-1", "IDLE+DRAIN", "2020-01-01T00:00:00 Reason=kiln: x [slurm@2020-01-01T00:00:00]");
    lab.start();
    let id = begin(&lab, Options { nodes: vec!["n-1".into()], ..Options::default() }).await;
    until("it is rebuilt", || lab.cloud.instance("n-1").image.as_deref() == Some("new")).await;
    until("it is there", || lab.cloud.instance("n-1").status == InstanceStatus::Active).await;
    lab.slurm.registers("n-1");
    let report = ended(&lab, id).await;
    assert!(report.done == 1 && report.rollout.nodes[0].direct, "{report:?}");
    assert!(lab.slurm.jobs().is_empty());
    lab.stop().await;
}

#[tokio::test]
async fn a_limit_on_jobs_means_later() {
    let mut lab = Lab::new();
    lab.slurm.is_full(true);
    lab.start();
    let id = begin(&lab, Options { halt_after: 1, ..Options::default() }).await;
    let all_wait = || {
        let nodes = report(&lab.store, id).unwrap().rollout.nodes;
        let says = |remark: &String| remark.contains("AssocMaxSubmitJobLimit");
        nodes.iter().all(|n| n.step == NodeStep::Pending && n.remark.as_ref().is_some_and(says))
    };
    until("all nodes say what they wait for", all_wait).await;
    until("it is tried again", || lab.slurm.calls("sbatch").len() > 2).await;
    assert_eq!(report(&lab.store, id).unwrap().rollout.state, RolloutState::Running);
    lab.slurm.is_full(false);
    assert_eq!(jobs(&lab, 3).await.len(), 3);
    let nodes = report(&lab.store, id).unwrap().rollout.nodes;
    assert!(nodes.iter().all(|n| n.tries <= 1), "{nodes:?}");
    lab.stop().await;
}

#[tokio::test]
async fn a_preempted_job_is_submitted_again() {
    let mut lab = Lab::new();
    lab.start();
    let id = begin(&lab, Options { nodes: vec!["n-0".into()], halt_after: 1, ..Options::default() }).await;
    // As often as Slurm likes.
    for many in 1..4 {
        let job = jobs(&lab, many).await[many - 1].0;
        lab.slurm.job_becomes(job, "PREEMPTED");
    }
    let last = jobs(&lab, 4).await[3].0;
    play(&lab, last, "n-0", "COMPLETED").await;
    let report = ended(&lab, id).await;
    assert_eq!((report.done, report.rollout.nodes[0].tries), (1, 1), "{report:?}");
    assert!(lab.slurm.calls("scontrol update").is_empty());
    lab.stop().await;
}

/// Slurm gives licences to whoever asks.
#[tokio::test]
async fn a_user_cannot_keep_the_licence_of_rebuild_jobs() {
    let mut lab = Lab::new();
    lab.fleet_file("new", r#","license":"rebuild","concurrency":2"#);
    let uses = "98|rebuild|rebuild:1\n99|standard|matlab:1,rebuild:2\n1|rebuild|rebuild\n";
    lab.slurm.licenses(&uses.replace('|', "|x9|"));
    lab.start();
    begin(&lab, Options { nodes: vec!["n-0".into()], ..Options::default() }).await;
    let job = jobs(&lab, 1).await[0].0;
    lab.slurm.job_waits_for(job, "Licenses");
    until("it is taken from the user", || !lab.slurm.calls("scontrol update").is_empty()).await;
    let expected = "scontrol update jobid=99 licenses=matlab:1";
    assert!(lab.slurm.calls("scontrol update").iter().all(|call| call == expected));
    lab.stop().await;
}

/// Neither an instance that somebody has set aside nor one that cannot be seen is a rollout's to touch.
#[tokio::test]
async fn nodes_whose_instance_is_held_or_in_doubt_are_skipped() {
    let mut lab = Lab::new();
    lab.start();
    until("kilnd has seen the instances", || lab.store.known_instances().unwrap().len() == 3).await;
    lab.cloud.put("n-0", |i| i.status = InstanceStatus::Held { how: "rescued".into() });
    lab.cloud.hide("n-1");
    lab.cloud.refuse("show", kiln_cloud::Error::failed("the cell does not answer"));
    let id = begin(&lab, Options::default()).await;
    let first = jobs(&lab, 1).await;
    let report = report(&lab.store, id).unwrap();
    let skipped = |at: usize| match &report.rollout.nodes[at].step {
        NodeStep::Skipped { reason } => reason.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!(skipped(0), "somebody has set its instance aside: it is rescued");
    assert!(skipped(1).contains("does not say whether it is gone"), "{}", skipped(1));
    assert!(first.len() == 1 && first[0].2.ends_with("n-2"), "{first:?}");
    lab.stop().await;
}
