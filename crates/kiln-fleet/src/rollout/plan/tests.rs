#![expect(clippy::unnecessary_wraps, reason = "made to fit the fields of what was seen")]

use std::slice::from_ref;
use std::time::Duration;

use kiln_slurm::{Node, State};

use super::*;
use crate::store::{Request, RequestKind, RequestState};

const START: i64 = 1000;

fn second(n: i64) -> Timestamp {
    Timestamp::from_second(n).unwrap()
}

fn now() -> Timestamp {
    second(START + 60)
}

fn node(name: &str, step: NodeStep) -> RolloutNode {
    RolloutNode {
        previous: Some("old".into()),
        target: Some("new".into()),
        begun: step.is_in_flight().then(|| second(START)),
        step,
        tries: 1,
        ..RolloutNode::pending(name, "rebuild", second(START))
    }
}

fn rollout(options: Options, steps: Vec<NodeStep>) -> Rollout {
    let nodes = (0..).zip(steps).map(|(i, step)| node(&format!("n-{i}"), step)).collect();
    Rollout { id: 1, created: second(START), finished: None, state: RolloutState::Running, options, nodes }
}

fn job(state: JobState) -> Option<JobObservation> {
    Some(JobObservation::Known { state, reason: "Resources".into() })
}

fn slurm(state: &str, booted: i64) -> Option<Node> {
    let state = State::parse(state);
    let reason = state.is_drained().then(|| "kiln: x".to_string());
    Some(Node { state, reason, booted: Some(second(booted)), ..Node::default() })
}

fn request(state: RequestState) -> Option<Request> {
    Some(Request {
        id: 1,
        kind: RequestKind::Reboot,
        node: String::new(),
        image: None,
        received: second(START + 10),
        state,
        attempts: 1,
        error: (state == RequestState::Failed).then(|| "the cloud has no image new".into()),
        next_try: second(START + 10),
        operation: None,
        began: Some(second(START + 11)),
        built_before: None,
        finished: None,
        jobs: None,
    })
}

/// In service on its old image, its job in this state.
fn old(state: JobState) -> NodeObservation {
    NodeObservation {
        image: Some("old".into()),
        first_seen: Some(second(START - 5000)),
        active: true,
        slurm: slurm("IDLE", START - 500),
        job: job(state),
        ..NodeObservation::default()
    }
}

/// Rebuilt and registered.
fn new(state: JobState) -> NodeObservation {
    NodeObservation {
        image: Some("new".into()),
        slurm: slurm("ALLOCATED", START + 20),
        request: request(RequestState::Done),
        ..old(state)
    }
}

fn act(rollout: &Rollout, seen: &[NodeObservation]) -> Vec<Action> {
    act_at(rollout, seen, now())
}

fn act_at(rollout: &Rollout, seen: &[NodeObservation], now: Timestamp) -> Vec<Action> {
    let seen = (0..).zip(seen).map(|(i, s)| (format!("n-{i}"), s.clone())).collect();
    plan(rollout, &seen, Limits { slurm_waits: Duration::from_secs(300), concurrency: 2 }, now)
}

fn submits(actions: &[Action]) -> Vec<String> {
    let name = |a: &Action| if let Action::Submit { node } = a { Some(node.clone()) } else { None };
    actions.iter().filter_map(name).collect()
}

/// The step a single node takes; `None` if it stays.
fn steps_to(step: NodeStep, seen: &NodeObservation) -> Option<NodeStep> {
    let actions = act(&rollout(Options { halt_after: 0, ..Options::default() }, vec![step]), from_ref(seen));
    changed_to(actions)
}

fn changed_to(actions: Vec<Action>) -> Option<NodeStep> {
    let change = |a| if let Action::Change { transition, .. } = a { Some(transition) } else { None };
    actions.into_iter().find_map(change).map(|transition| transition.step(&NodeStep::Pending))
}

fn change(node: &str, transition: Transition) -> Action {
    Action::Change { node: node.into(), transition }
}

#[test]
fn a_node_goes_its_way() {
    use JobState::{Completed, Configuring, Pending, Running};
    let submitted = || NodeStep::Submitted { job: 7 };
    let rebuilding = || NodeStep::Rebuilding { job: Some(7) };
    let booting = || NodeStep::Booting { job: Some(7) };
    let checking = || NodeStep::Checking { job: 7 };
    let at_work = NodeObservation { request: request(RequestState::Working), ..old(Configuring) };
    let being_built = NodeObservation { building: true, active: false, ..new(Configuring) };
    let not_seen_yet =
        NodeObservation { slurm: slurm("ALLOCATED+POWERING_UP", START - 500), ..new(Configuring) };
    let back_late = NodeObservation { slurm: slurm("DOWN+NOT_RESPONDING", START - 500), ..new(Completed) };
    let rows = [
        (submitted(), old(Configuring), None),
        (submitted(), at_work, Some(rebuilding())),
        (submitted(), old(Running), None),
        (rebuilding(), being_built, None),
        (rebuilding(), not_seen_yet.clone(), Some(booting())),
        (booting(), not_seen_yet, None),
        (booting(), new(Configuring), None),
        (booting(), new(Running), Some(checking())),
        (checking(), new(Completed), Some(NodeStep::Done)),
        (checking(), back_late, Some(booting())),
        // A whole rebuild between two rounds.
        (submitted(), new(Completed), Some(NodeStep::Done)),
    ];
    for (step, seen, next) in rows {
        assert_eq!(steps_to(step.clone(), &seen), next, "{step:?} {seen:?}");
    }
    let waiting = act(&rollout(Options::default(), vec![submitted()]), &[old(Pending)]);
    let remark = Some("waits: Resources".to_string());
    assert_eq!(waiting, [change("n-0", Transition::Queue { job: 7, remark })]);
}

#[test]
fn what_went_wrong_is_tried_once_more() {
    let lost = NodeObservation { job: Some(JobObservation::Gone), ..old(JobState::Running) };
    let node_failed = new(JobState::NodeFail);
    let cancelled_late = new(JobState::Cancelled);
    for seen in [old(JobState::Completed), old(JobState::Cancelled), lost, node_failed, cancelled_late] {
        let mut rollout = rollout(Options::default(), vec![NodeStep::Submitted { job: 7 }]);
        let first = act(&rollout, from_ref(&seen));
        assert!(
            matches!(&first[0], Action::Change { transition: Transition::Retry { .. }, .. }),
            "{seen:?}: {first:?}"
        );
        rollout.nodes[0].tries = 2;
        let second = act(&rollout, &[seen]);
        assert!(
            matches!(&second[0], Action::Change { transition: Transition::Fail { .. }, .. }),
            "{second:?}"
        );
    }
}

/// Slurm itself ended the job: its node is as it was.
#[test]
fn a_job_that_slurm_ended_before_its_turn_drains_no_node() {
    let submitted = || NodeStep::Submitted { job: 7 };
    let mut rollout = rollout(Options::default(), vec![submitted()]);
    rollout.nodes[0].tries = 2;
    let remark = Some("job 7 was preempted before its turn".to_string());
    let preempted = act(&rollout, &[old(JobState::Preempted)]);
    assert_eq!(preempted[0], change("n-0", Transition::HandBack { remark }));
    // Once more, and after that no drain.
    for seen in [old(JobState::NodeFail), new(JobState::Preempted)] {
        for (tries, fails) in [(1, false), (2, true)] {
            rollout.nodes[0].tries = tries;
            let actions = act(&rollout, from_ref(&seen));
            assert!(!actions.iter().any(|a| matches!(a, Action::Drain { .. })), "{actions:?}");
            let Action::Change { transition, .. } = &actions[0] else { panic!("{actions:?}") };
            assert_eq!(matches!(transition, Transition::Fail { .. }), fails, "{seen:?}");
        }
    }
}

/// It was put back into service before the cloud was asked.
#[test]
fn a_request_that_was_called_off_is_tried_again() {
    let mut rollout = rollout(Options::default(), vec![NodeStep::Rebuilding { job: None }]);
    rollout.nodes[0].direct = true;
    let why = "not rebuilt: it is back in service".to_string();
    let called_off = NodeObservation {
        request: request(RequestState::Done).map(|r| Request { error: Some(why.clone()), ..r }),
        job: None,
        ..old(JobState::Completed)
    };
    assert_eq!(act(&rollout, &[called_off])[0], change("n-0", Transition::Retry { why }));
}

#[test]
fn a_job_without_a_rebuild_is_named() {
    let mut rollout = rollout(Options::default(), vec![NodeStep::Submitted { job: 7 }]);
    rollout.nodes[0].tries = 2;
    let actions = act(&rollout, &[old(JobState::Completed)]);
    let Action::Change { transition: Transition::Fail { reason }, .. } = &actions[0] else {
        panic!("{actions:?}")
    };
    assert!(reason.contains("ran without a rebuild") && reason.ends_with("(tried 2 times)"), "{reason}");
}

#[test]
fn a_failed_check_drains_and_a_failed_request_is_quoted() {
    let seen = new(JobState::Failed);
    let actions = act(&rollout(Options::default(), vec![NodeStep::Checking { job: 7 }]), &[seen]);
    assert!(matches!(&actions[1], Action::Drain { reason, .. }
        if reason.starts_with("kiln: rollout 1: job 7 failed: its command or check did not succeed")));
    let seen = NodeObservation { request: request(RequestState::Failed), ..old(JobState::Configuring) };
    let actions = act(&rollout(Options::default(), vec![NodeStep::Submitted { job: 7 }]), &[seen]);
    assert_eq!(actions[0], Action::Cancel { node: "n-0".into(), job: 7 });
    assert!(matches!(&actions[1], Action::Change { transition: Transition::Fail { reason }, .. }
        if reason == "the cloud has no image new"));
}

#[test]
fn a_node_that_does_not_return_fails() {
    let gone =
        NodeObservation { slurm: slurm("DOWN+NOT_RESPONDING", START - 500), ..new(JobState::NodeFail) };
    let mut rollout = rollout(Options::default(), vec![NodeStep::Booting { job: Some(7) }]);
    assert!(act(&rollout, from_ref(&gone)).is_empty());
    rollout.nodes[0].since = now() - Duration::from_secs(11 * 60);
    rollout.nodes[0].begun = Some(rollout.nodes[0].since);
    let actions = act(&rollout, &[gone]);
    assert!(actions.iter().any(|a| matches!(a, Action::Drain { reason, .. } if reason.contains("console"))));
}

/// Slurm was killed just then, and waits for its boot for ever.
#[test]
fn a_node_that_loses_its_instance_on_the_way_fails() {
    use JobState::{Configuring, Pending};
    let lost = |state| NodeObservation { image: None, first_seen: None, active: false, ..new(state) };
    let at = |step: NodeStep, seen: NodeObservation| {
        let mut rollout = rollout(Options::default(), vec![step]);
        rollout.nodes[0].since = now() - Duration::from_secs(20);
        act(&rollout, &[seen])
    };
    let actions = at(NodeStep::Rebuilding { job: Some(7) }, lost(Configuring));
    assert_eq!(actions[0], Action::Cancel { node: "n-0".into(), job: 7 });
    let reason = "its instance is gone; `kiln up` recreates it".to_string();
    assert_eq!(actions[1], change("n-0", Transition::Fail { reason }));
    // A job that waits, waits for the new instance, unless Slurm has given the node up.
    let waiting = at(NodeStep::Submitted { job: 7 }, lost(Pending));
    assert!(waiting.iter().all(|a| !matches!(a, Action::Cancel { .. })), "{waiting:?}");
    let given_up = NodeObservation { slurm: slurm("DOWN+NOT_RESPONDING", START - 500), ..lost(Pending) };
    let actions = at(NodeStep::Submitted { job: 7 }, given_up.clone());
    assert_eq!(actions[0], Action::Cancel { node: "n-0".into(), job: 7 });
    let reason = "its instance is gone; `kiln up` recreates it".to_string();
    assert_eq!(actions[1], change("n-0", Transition::Fail { reason }));
    let unlisted = NodeObservation { doubt: Some("?".into()), ..given_up.clone() };
    assert!(!at(NodeStep::Submitted { job: 7 }, unlisted).iter().any(|a| matches!(a, Action::Cancel { .. })));
    let there = NodeObservation { first_seen: Some(second(START - 5000)), ..given_up };
    assert!(!at(NodeStep::Submitted { job: 7 }, there).iter().any(|a| matches!(a, Action::Cancel { .. })));
    // The same where the cloud took it away without a word: Slurm's patience, and a minute.
    let mut rollout = rollout(Options::default(), vec![NodeStep::Rebuilding { job: Some(7) }]);
    let stopped = NodeObservation { active: false, ..new(Configuring) };
    assert!(act(&rollout, from_ref(&stopped)).is_empty());
    rollout.nodes[0].since = now() - Duration::from_secs(11 * 60);
    assert!(act(&rollout, &[stopped]).iter().any(|a| matches!(a, Action::Drain { .. })));
    // It booted, and Slurm does not ask it to register.
    let unheard = NodeObservation { slurm: slurm("UNKNOWN+POWERING_UP", START - 500), ..new(Configuring) };
    rollout.nodes[0].step = NodeStep::Booting { job: Some(7) };
    assert!(act(&rollout, from_ref(&unheard)).iter().any(|a| matches!(a, Action::Drain { .. })));
    rollout.nodes[0].since = now() - Duration::from_secs(60);
    assert!(act(&rollout, &[unheard]).is_empty());
}

#[test]
fn canaries_go_first() {
    let options = Options { canary: 1, ..Options::default() };
    let skipped = || NodeStep::Skipped { reason: String::new() };
    let pending = || NodeStep::Pending;
    let running = NodeStep::Submitted { job: 7 };
    let first = rollout(options.clone(), vec![skipped(), pending(), pending()]);
    assert_eq!(submits(&act(&first, &[])), ["n-1"]);
    let waiting = rollout(options.clone(), vec![skipped(), running, pending()]);
    assert!(submits(&act(&waiting, &[NodeObservation::default(), old(JobState::Pending)])).is_empty());
    let proven = rollout(options.clone(), vec![skipped(), NodeStep::Done, pending(), pending()]);
    assert_eq!(submits(&act(&proven, &[])), ["n-2", "n-3"]);
    let failed = NodeStep::Failed { reason: "no boot".into() };
    let bad = rollout(options, vec![skipped(), failed, pending()]);
    let why = "the canary failed; n-1: no boot".to_string();
    assert_eq!(act(&bad, &[]), [Action::Become(RolloutState::Halting { why })]);
}

#[test]
fn no_more_nodes_than_allowed_are_out() {
    let options = Options { max_unavailable: 2, ..Options::default() };
    let steps = vec![NodeStep::Checking { job: 1 }, NodeStep::Pending, NodeStep::Pending];
    let rollout = rollout(options, steps);
    assert_eq!(submits(&act(&rollout, &[new(JobState::Running)])), ["n-1"]);
    // The place of a node that is done now is free now.
    assert_eq!(submits(&act(&rollout, &[new(JobState::Completed)])), ["n-1", "n-2"]);
}

#[test]
fn it_halts_and_leaves_the_rest_alone() {
    let failed = || NodeStep::Failed { reason: "no boot".into() };
    let options = Options { halt_after: 2, ..Options::default() };
    let one = rollout(options.clone(), vec![failed(), NodeStep::Pending]);
    assert_eq!(submits(&act(&one, &[])), ["n-1"]);
    let waits = NodeStep::Submitted { job: 9 };
    let mut two = rollout(options, vec![failed(), failed(), waits, NodeStep::Pending]);
    let seen = [NodeObservation::default(), NodeObservation::default(), old(JobState::Pending)];
    let actions = act(&two, &seen);
    assert!(submits(&actions).is_empty());
    let Some(Action::Become(halting @ RolloutState::Halting { .. })) = actions.last() else {
        panic!("{actions:?}")
    };
    two.state = halting.clone();
    let actions = act(&two, &seen);
    assert!(actions.contains(&Action::CancelPending { node: "n-2".into(), job: 9 }));
    let reason = "the rollout was halted".to_string();
    let skip = || Transition::Skip { reason: reason.clone() };
    assert!(actions.contains(&change("n-3", skip())));
    // Slurm has cancelled the job: nothing is left to do.
    two.nodes[3].step = NodeStep::Skipped { reason: reason.clone() };
    let seen = [NodeObservation::default(), NodeObservation::default(), old(JobState::Cancelled)];
    let actions = act(&two, &seen);
    assert_eq!(actions[0], change("n-2", skip()));
    assert!(matches!(&actions[1], Action::Become(RolloutState::Halted { .. })));
}

#[test]
fn pausing_calls_off_what_waits_only() {
    let steps =
        vec![NodeStep::Submitted { job: 1 }, NodeStep::Rebuilding { job: Some(2) }, NodeStep::Pending];
    let mut rollout = rollout(Options::default(), steps);
    rollout.state = RolloutState::Paused;
    let building = NodeObservation { building: true, ..old(JobState::Configuring) };
    let actions = act(&rollout, &[old(JobState::Pending), building.clone()]);
    assert!(actions.contains(&Action::CancelPending { node: "n-0".into(), job: 1 }));
    assert!(submits(&actions).is_empty());
    let actions = act(&rollout, &[old(JobState::Cancelled), building]);
    assert_eq!(actions, [change("n-0", Transition::HandBack { remark: None })]);
}

#[test]
fn aborting_follows_what_has_begun_to_its_end() {
    let steps = vec![NodeStep::Rebuilding { job: Some(2) }, NodeStep::Draining];
    let mut rollout = rollout(Options::default(), steps);
    rollout.state = RolloutState::Aborting;
    let building = NodeObservation { building: true, ..old(JobState::Configuring) };
    let draining = NodeObservation {
        job: None,
        slurm: slurm("ALLOCATED+DRAIN+REBOOT_REQUESTED", 0),
        ..building.clone()
    };
    let draining = NodeObservation { building: false, ..draining };
    let actions = act(&rollout, &[building, draining]);
    assert!(matches!(&actions[..], [Action::CancelReboot { .. }]), "{actions:?}");
    rollout.nodes[0].step = NodeStep::Done;
    rollout.nodes[1].step = NodeStep::Done;
    assert_eq!(act(&rollout, &[]), [Action::Become(RolloutState::Aborted)]);
}

#[test]
fn changed_nodes_are_taken_back() {
    let failed = || NodeStep::Failed { reason: "check".into() };
    let options = Options { rollback_on_halt: true, ..Options::default() };
    let steps = vec![NodeStep::Done, failed(), failed(), NodeStep::Skipped { reason: String::new() }];
    let mut rollout = rollout(options, steps);
    rollout.state = RolloutState::Halting { why: "w".into() };
    let drained = NodeObservation { slurm: slurm("IDLE+DRAIN", START + 20), ..new(JobState::Completed) };
    let untouched = old(JobState::Completed);
    let actions = act(&rollout, &[new(JobState::Completed), drained, untouched.clone(), untouched]);
    assert_eq!(
        actions,
        [
            Action::TakeBack { node: "n-0".into(), image: "old".into() },
            Action::TakeBack { node: "n-1".into(), image: "old".into() },
            Action::Become(RolloutState::RollingBack { why: "w".into() }),
        ]
    );
    let foreign = |seen: NodeObservation| {
        let drained = seen.slurm.map(|node| Node { reason: Some("bad fan".into()), ..node });
        NodeObservation { slurm: drained, ..seen }
    };
    let drained = NodeObservation { slurm: slurm("IDLE+DRAIN", START + 20), ..new(JobState::Completed) };
    let actions = act(&rollout, &[foreign(drained)]);
    assert!(matches!(&actions[0], Action::Change { transition: Transition::RefuseTakeBack { .. }, .. }));
    rollout.state = RolloutState::RollingBack { why: "w".into() };
    assert_eq!(act(&rollout, &[]), [Action::Become(RolloutState::RolledBack { why: "w".into() })]);
}

#[test]
fn draining_needs_no_job() {
    let options = Options { strategy: Strategy::Drain, check: Some("true".into()), ..Options::default() };
    let jobless = |seen: NodeObservation| NodeObservation { job: None, ..seen };
    let draining = rollout(options.clone(), vec![NodeStep::Draining]);
    let busy =
        NodeObservation { slurm: slurm("ALLOCATED+DRAIN+REBOOT_REQUESTED", 0), ..old(JobState::Running) };
    assert!(act(&draining, &[jobless(busy)]).is_empty());
    let never_called = jobless(old(JobState::Running));
    assert!(matches!(
        &act(&draining, &[never_called])[0],
        Action::Change { transition: Transition::Retry { .. }, .. }
    ));
    let back = jobless(new(JobState::Running));
    let booting = rollout(options, vec![NodeStep::Booting { job: None }]);
    assert_eq!(act(&booting, from_ref(&back)), [Action::SubmitCheck { node: "n-0".into() }]);
    let unchecked = Options { strategy: Strategy::Drain, ..Options::default() };
    let booting = rollout(unchecked, vec![NodeStep::Booting { job: None }]);
    assert!(matches!(&act(&booting, &[back])[0], Action::Change { transition: Transition::Finish, .. }));
}

#[test]
fn without_a_reboot_the_job_is_all() {
    let options = Options { no_reboot: true, ..Options::default() };
    let rollout = rollout(options, vec![NodeStep::Submitted { job: 7 }]);
    let actions = act(&rollout, &[old(JobState::Completed)]);
    assert!(matches!(&actions[0], Action::Change { transition: Transition::Finish, .. }));
}

/// What Slurm says of a node that did not boot in time.
fn given_up(reason: &str) -> Option<Node> {
    let mut node = slurm("DOWN+NOT_RESPONDING", START - 500).unwrap();
    node.reason = Some(reason.into());
    Some(node)
}

#[test]
fn a_node_that_slurm_gave_up_is_drained_in_words() {
    for (reason, step, job_state) in [
        ("ResumeTimeout reached", NodeStep::Booting { job: Some(7) }, Some(JobState::NodeFail)),
        ("reboot timed out", NodeStep::Booting { job: None }, None),
    ] {
        let options = Options { halt_after: 0, ..Options::default() };
        let seen = NodeObservation {
            slurm: given_up(reason),
            job: job_state.and_then(job),
            ..new(JobState::Completed)
        };
        let begun = rollout(options.clone(), vec![step.clone()]);
        let late = second(START + 301);
        let actions = act_at(&begun, from_ref(&seen), late);
        let drain = |a: &Action| {
            matches!(a, Action::Drain { reason, .. }
            if reason.starts_with("kiln: rollout 1: it was rebuilt but did not come back to Slurm within 300 s"))
        };
        assert!(actions.iter().any(drain), "{actions:?}");
        // The cloud was slow: it may still boot.
        let actions = act_at(&begun, from_ref(&seen), second(START + 299));
        assert!(!actions.iter().any(drain), "{actions:?}");
        // Any other reason may pass by itself.
        let seen = NodeObservation { slurm: given_up("Node unexpectedly rebooted"), ..seen };
        let actions = act_at(&begun, from_ref(&seen), late);
        assert!(!actions.iter().any(|a| matches!(a, Action::Drain { .. })), "{actions:?}");
    }
}

#[test]
fn a_node_that_was_brought_back_past_slurm_is_checked_too() {
    let options = Options { check: Some("true".into()), ..Options::default() };
    let mut rollout = rollout(options, vec![NodeStep::Booting { job: None }]);
    rollout.nodes[0].direct = true;
    let drained =
        NodeObservation { slurm: slurm("IDLE+DRAIN", START + 20), job: None, ..new(JobState::Completed) };
    assert!(matches!(&act(&rollout, from_ref(&drained))[0], Action::Undrain { .. }));
    let back = NodeObservation { slurm: slurm("IDLE", START + 20), ..drained };
    assert!(matches!(&act(&rollout, from_ref(&back))[0], Action::SubmitCheck { .. }));
}

/// Its health check has drained it, and is the one to put it back.
#[test]
fn a_node_that_is_not_well_stays_out_of_service() {
    let mut rollout = rollout(Options::default(), vec![NodeStep::Booting { job: None }]);
    rollout.nodes[0].direct = true;
    let mut ill = slurm("IDLE+DRAIN", START + 20).unwrap();
    ill.reason = Some("kiln: health: /home is not mounted".into());
    let seen = NodeObservation { slurm: Some(ill), job: None, ..new(JobState::Completed) };
    assert_eq!(act(&rollout, from_ref(&seen)), [], "it may become well");
    let actions = act_at(&rollout, from_ref(&seen), second(START + 5000));
    let reason = "it was rebuilt and is not well: /home is not mounted".to_string();
    assert!(actions.contains(&change("n-0", Transition::Fail { reason })), "{actions:?}");
    let touched = |a: &Action| matches!(a, Action::Undrain { .. } | Action::Drain { .. });
    assert!(!actions.iter().any(touched), "{actions:?}");
}

#[test]
fn a_node_of_an_elastic_group_is_done_when_what_it_had_is_gone() {
    let seen = |created: Option<i64>, state: &str| NodeObservation {
        image: created.map(|_| "old".to_string()),
        first_seen: created.map(second),
        slurm: slurm(state, START - 500),
        ..NodeObservation::default()
    };
    let step = |seen: &NodeObservation| {
        let mut one = rollout(Options::default(), vec![NodeStep::Draining]);
        one.nodes[0].elastic = true;
        changed_to(act(&one, from_ref(seen)))
    };
    assert_eq!(step(&seen(Some(START - 500), "MIXED+CLOUD+DRAIN+POWER_DOWN")), None);
    assert_eq!(step(&seen(Some(START - 500), "IDLE+CLOUD+POWERING_DOWN")), None);
    assert_eq!(step(&seen(None, "IDLE+CLOUD+POWERED_DOWN")), Some(NodeStep::Done));
    let doubt = NodeObservation { doubt: Some("?".into()), ..seen(None, "IDLE+CLOUD") };
    assert_ne!(step(&doubt), Some(NodeStep::Done), "nobody can say that it is gone");
    // It went and came back between two rounds.
    assert_eq!(step(&seen(Some(START + 30), "IDLE+CLOUD")), Some(NodeStep::Done));
    // Somebody called it off.
    assert_eq!(step(&seen(Some(START - 500), "IDLE+CLOUD")), Some(NodeStep::Pending));
}

#[test]
fn nothing_is_taken_back_while_the_image_of_a_node_is_in_doubt() {
    let options = Options { rollback_on_halt: true, ..Options::default() };
    let mut halting = rollout(options, vec![NodeStep::Done, NodeStep::Failed { reason: "x".into() }]);
    halting.state = RolloutState::Halting { why: "x".into() };
    let seen = |doubt: Option<&str>| {
        let unseen = NodeObservation { doubt: doubt.map(String::from), ..NodeObservation::default() };
        act(&halting, &[new(JobState::Completed), unseen])
    };
    assert!(seen(Some("?")).is_empty());
    assert!(seen(None).iter().any(|action| matches!(action, Action::TakeBack { .. })));
}

#[test]
fn no_more_nodes_are_drained_than_the_cloud_builds() {
    let of = |strategy, max_unavailable| {
        let options = Options { max_unavailable, strategy, ..Options::default() };
        let steps = vec![NodeStep::Draining, NodeStep::Pending, NodeStep::Pending, NodeStep::Pending];
        let waits = NodeObservation {
            slurm: slurm("IDLE+REBOOT_REQUESTED", START - 500),
            first_seen: Some(second(START - 500)),
            ..NodeObservation::default()
        };
        submits(&act(&rollout(options, steps), from_ref(&waits))).len()
    };
    assert_eq!(of(Strategy::Drain, 0), 1);
    assert_eq!(of(Strategy::Drain, 3), 2);
    assert_eq!(of(Strategy::Job, 0), 3);
}
