//! Every row of the table, and what no row may touch.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus, testing};
use kiln_slurm::{Base, Flag, Node, parse_node};

use super::super::super::observe::Observation;
use super::super::super::observe::node::{NodeObservation, Pause, Stray, Unlisted};
use super::super::{brake, plan};
use super::*;
use crate::store::{CloudOperation, FindingRecord, RequestKind};
use InstanceStatus::{Active, Building, Deleting, Stopped};

fn second(n: i64) -> Timestamp {
    Timestamp::from_second(n).unwrap()
}

fn instance(id: &str, status: InstanceStatus, created: i64) -> Instance {
    Instance {
        id: id.into(),
        status,
        image: Some("new".into()),
        address: format!("10.0.0.{created}").parse().ok(),
        created: second(created),
        ..testing::instance("n-0")
    }
}

fn held() -> InstanceStatus {
    InstanceStatus::Held { how: "paused".into() }
}

fn broken() -> InstanceStatus {
    InstanceStatus::Error { reason: "no host".into() }
}

/// A node as `scontrol` would print it: state, and reason with its author.
fn node(state: &str) -> NodeObservation {
    let line = format!("NodeName=n-0 State={state}");
    NodeObservation {
        node: "n-0".into(),
        group: "g".into(),
        slurm: parse_node(&line),
        image: Some("new".into()),
        is_published: true,
        ..NodeObservation::default()
    }
}

fn elastic(state: &str) -> NodeObservation {
    NodeObservation { elastic: true, ..node(state) }
}

impl NodeObservation {
    fn with(mut self, status: InstanceStatus) -> Self {
        let n = i64::try_from(self.instances.len()).unwrap() + 1;
        self.instances.push(instance(&format!("i-{n}"), status, n));
        self
    }

    fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn slurm_mut(&mut self) -> &mut Node {
        self.slurm.as_mut().unwrap()
    }
}

fn paused(o: &mut NodeObservation) {
    o.pause = Some(Pause { until: second(3600), problem: "quota".into() });
}

fn lost_reason(o: &mut NodeObservation) {
    o.drained_for = Some("kiln: rollout 6: it did not come back".into());
}

fn unlisted(o: &mut NodeObservation) {
    o.unlisted = Some(Unlisted::NoAnswer("the cell does not answer".into()));
}

const BY_SLURM: &str = "Reason=Not responding [slurm@2026-01-01T00:00:00]";

/// Rule and actions in short: `no-instance: down resume power-down`.
fn finding(o: &NodeObservation) -> String {
    diagnose(o).map_or("-".into(), |(rule, found)| short(rule, &found))
}

fn short(rule: &Rule, found: &Diagnosis) -> String {
    let words = found.actions.iter().map(|action| match action {
        Action::Down { .. } => " down".into(),
        Action::Drain { .. } => " drain".into(),
        Action::RestoreReason { .. } => " restore-reason".into(),
        Action::ClearReason => " clear-reason".into(),
        Action::Resume => " resume".into(),
        Action::CountFailure { .. } => " count-failure".into(),
        Action::PowerDown => " power-down".into(),
        Action::PowerUp => " power-up".into(),
        Action::AskForInstance => " ask".into(),
        Action::Start { instance } => format!(" start {instance}"),
        Action::Delete { instance } => format!(" delete {instance}"),
    });
    format!("{}:{}", rule.name, words.collect::<String>())
}

fn rows() -> Vec<(NodeObservation, &'static str)> {
    let off = || elastic("IDLE+CLOUD+POWERED_DOWN");
    let up = || elastic("IDLE+CLOUD");
    let silent = || elastic("IDLE+CLOUD+NOT_RESPONDING");
    let down = |state: &str| elastic(&format!("{state} {BY_SLURM}"));
    let paused_node = "IDLE+CLOUD+DRAIN+POWERED_DOWN Reason=kiln: g paused until 1970: quota [slurm@1]";
    let left_reason = "IDLE+CLOUD+POWERED_DOWN Reason=kiln: rollout 6 [slurm@2026-01-01T00:00:00]";
    let rebooted = "DOWN Reason=Node unexpectedly rebooted [slurm@2026-01-01T00:00:00]";
    let forgotten = "DOWN+DRAIN Reason=Node unexpectedly rebooted [slurm@2026-01-01T00:00:00]";
    let killed = |state: &str| format!("{state} Reason=Kill task failed [root@2026-01-01T00:00:00]");
    let unhealthy = "Reason=kiln: health: /home is not mounted [root@2026-01-01T00:00:00]";
    let gone = "DOWN Reason=kiln: its instance is gone; kiln apply recreates it [slurm@2026-01-01T00:00:00]";
    let shut_off = "DOWN Reason=kiln: its instance is shut off [slurm@2026-01-01T00:00:00]";
    let leaving =
        "ALLOCATED+DRAIN+NOT_RESPONDING Reason=kiln: it leaves the file [slurm@2026-01-01T00:00:00]";
    let jobs = |o: &mut NodeObservation| o.slurm_mut().allocated = 1;
    let booted = |at: i64| move |o: &mut NodeObservation| o.slurm_mut().booted = Some(second(at));
    let set_down = |at: i64| move |o: &mut NodeObservation| o.slurm_mut().reason_at = Some(second(at));
    let seen_at = |at: i64| move |o: &mut NodeObservation| _ = o.first_seen.insert("i-1".into(), second(at));
    let built = |at: i64| move |o: &mut NodeObservation| o.instances[0].built = Some(second(at));
    let operation =
        |at: i64| move |o: &mut NodeObservation| o.operation = Some((CloudOperation::Start, second(at)));
    let bundle = |o: &mut NodeObservation| {
        o.bundle = Some(("abcdef".into(), second(0)));
        o.slurm_mut().extra = Some("kiln-bundle:123456".into());
    };
    vec![
        (node("IDLE").but(|o| o.slurm = None), "unknown-to-slurm:"),
        (elastic("MIXED+CLOUD+NOT_RESPONDING").but(unlisted), "unlisted:"),
        (node("IDLE*").but(unlisted), "unlisted:"),
        (node("IDLE*").with(Active).but(|o| o.unlisted = Some(Unlisted::There)), "unlisted:"),
        (elastic("ALLOCATED+CLOUD+POWERING_UP").but(unlisted), "unlisted:"),
        (down("DOWN+CLOUD").but(unlisted), "unlisted:"),
        // Slurm's own drains end with the instance that they were about, and with no other.
        (elastic(&killed("IDLE+CLOUD+DRAIN+POWERED_DOWN")), "outlived-drain: resume power-down"),
        (elastic(&killed("DOWN+CLOUD+DRAIN+POWERED_DOWN")), "outlived-drain: resume power-down"),
        // A slurmctld that was killed may have forgotten that it had the node powered up.
        (elastic(&killed("IDLE+CLOUD+DRAIN+POWERED_DOWN")).with(Active), "left-running: delete i-1"),
        (elastic(&killed("IDLE+CLOUD+DRAIN+POWERED_DOWN")).but(unlisted), "-"),
        (elastic(&killed("IDLE+CLOUD+DRAIN")), "-"),
        (elastic(&format!("IDLE+CLOUD+DRAIN+POWERED_DOWN {unhealthy}")), "outlived-drain: resume power-down"),
        (elastic(&format!("IDLE+CLOUD+DRAIN {unhealthy}")).with(Active), "-"),
        (node(&format!("IDLE+DRAIN {unhealthy}")).with(Active), "-"),
        (elastic(&killed("IDLE+CLOUD+DRAIN+POWERING_DOWN")), "-"),
        (node(&killed("IDLE+DRAIN+POWERED_DOWN")), "-"),
        // What Kiln drained keeps its reason, also when Slurm has dropped it; what others drained is theirs.
        (node("IDLE+DRAIN").with(Active).but(lost_reason), "lost-reason: restore-reason"),
        (
            node(forgotten).with(Active).but(booted(100)).but(operation(90)).but(lost_reason),
            "lost-reason: restore-reason",
        ),
        (node(forgotten).with(Active).but(booted(100)).but(operation(90)), "-"),
        // Slurm ends a drain with the power, and leaves the reason.
        (elastic(left_reason), "left-reason: clear-reason"),
        (elastic(left_reason).with(Active), "left-running: delete i-1"),
        (node(left_reason), "-"),
        (elastic(&left_reason.replace("kiln: rollout 6", "bad fan")), "-"),
        (elastic(paused_node), "pause-over: resume power-down"),
        (elastic(paused_node).but(paused), "-"),
        // Duplicates: the one in use is kept, else the oldest that is active.
        (up().with(Active).with(Active), "duplicate: delete i-2"),
        (up().with(Stopped).with(Active), "duplicate: delete i-1"),
        (
            up().with(Active).with(Active).but(|o| o.reached_at = "10.0.0.2".parse().ok()),
            "duplicate: delete i-1",
        ),
        (elastic("ALLOCATED+CLOUD").with(Active).with(Active), "duplicate:"),
        (
            node("ALLOCATED").with(Active).with(Active).but(|o| o.reached_at = "10.0.0.1".parse().ok()),
            "duplicate: delete i-2",
        ),
        (up().with(Active).with(Deleting), "-"),
        (up().with(Active).with(held()), "duplicate:"),
        // Down by Kiln itself: no instance yet, one that has yet to register, one that has.
        (node(gone).but(booted(0)), "-"),
        (node(gone).with(Active).but(booted(-90)), "lost:"),
        (node(gone).with(Active).but(booted(9)), "instance-back: resume"),
        // By this host's clock it came after the boot that Slurm knows of; the cloud's is behind.
        (node(gone).with(Active).but(booted(9)).but(seen_at(60)), "lost:"),
        (node(gone).with(Active).but(booted(70)).but(seen_at(60)), "instance-back: resume"),
        // It was up before kilnd saw it.
        (node(gone).with(Active).but(booted(50)).but(seen_at(60)).but(set_down(40)), "instance-back: resume"),
        (node(gone).with(Active).but(booted(30)).but(seen_at(60)).but(set_down(40)), "lost:"),
        // It was shut off, and has started since.
        (node(shut_off).with(Active).but(booted(50)).but(set_down(40)), "instance-back: resume"),
        // Its clock is behind.
        (node(shut_off).with(Active).but(booted(50)).but(set_down(90)), "instance-back: resume"),
        (node(shut_off).with(Active).but(booted(20)).but(set_down(90)), "lost:"),
        (node(shut_off).with(Stopped).but(booted(30)).but(set_down(40)), "stopped-instance: start i-1"),
        // Reboots: Kiln's own, an accident, an old operation.
        (node(rebooted).with(Active).but(booted(100)).but(operation(90)), "own-reboot: resume"),
        (node(rebooted).with(Active).but(booted(9000)), "lost:"),
        // `kiln up` has made or rebuilt the instance: by the cloud's clock, by this host's.
        (node(rebooted).with(Active).but(booted(100)), "own-reboot: resume"),
        (node(rebooted).with(Active).but(booted(9000)).but(built(8990)), "own-reboot: resume"),
        (node(rebooted).with(Active).but(booted(100)).but(built(9000)), "own-reboot: resume"),
        (node(rebooted).with(Active).but(booted(9000)).but(seen_at(9030)), "own-reboot: resume"),
        (node(rebooted).with(Active).but(booted(100)).but(built(9000)).but(seen_at(9000)), "lost:"),
        (node(rebooted).with(Active).but(booted(100)).but(|o| o.slurm_mut().allocated = 1), "lost:"),
        (node(rebooted).with(Active).but(booted(100)).but(bundle), "lost:"),
        (node(rebooted).with(Building).but(booted(100)), "-"),
        (node(rebooted).with(Active).but(booted(9000)).but(operation(90)), "lost:"),
        (node(rebooted).with(Active).but(booted(5000)).but(operation(5040)), "lost:"),
        // Somebody has set it aside.
        (up().with(held()), "held-instance:"),
        (off().with(held()), "held-instance:"),
        (node("IDLE*").with(held()), "held-instance:"),
        (down("DOWN+CLOUD").with(held()), "held-instance:"),
        // Slurm hears from it.
        (up().with(broken()), "broken-instance:"),
        (silent().with(broken()), "broken-instance: down delete i-1 resume power-down"),
        (
            elastic("IDLE+CLOUD+POWERING_UP").with(broken()),
            "broken-instance: down delete i-1 resume power-down",
        ),
        (down("DOWN+CLOUD").with(broken()), "broken-instance: delete i-1 resume power-down"),
        (off().with(broken()), "broken-instance: delete i-1"),
        (elastic("ALLOCATED+CLOUD").with(broken()), "broken-instance:"),
        (
            elastic("ALLOCATED+CLOUD+NOT_RESPONDING").but(|o| o.slurm_mut().allocated = 1).with(broken()),
            "broken-instance: down delete i-1 resume power-down",
        ),
        (node("IDLE").with(broken()), "broken-instance:"),
        (node("IDLE*").with(Stopped), "stopped-instance: start i-1"),
        // Jobs end with their machine.
        (node("ALLOCATED*").but(jobs).with(Stopped), "stopped-instance: down start i-1"),
        (node(leaving).but(jobs).with(Stopped), "-"),
        (silent().with(Stopped), "stopped-instance: down delete i-1 resume power-down"),
        // Slurm hears from it.
        (node("IDLE").with(Stopped), "stopped-instance:"),
        (up().with(Stopped), "stopped-instance:"),
        (elastic("MIXED+CLOUD+REBOOT_REQUESTED").with(Stopped), "stopped-instance:"),
        (
            elastic("MIXED+CLOUD+POWERING_UP").with(Stopped),
            "stopped-instance: down delete i-1 resume power-down",
        ),
        (elastic("IDLE+CLOUD+POWERING_DOWN").with(Stopped), "-"),
        (node("ALLOCATED*"), "no-instance: down"),
        (elastic("MIXED+CLOUD+NOT_RESPONDING"), "no-instance: down resume power-down"),
        // Slurm hears from it.
        (node("ALLOCATED"), "no-instance:"),
        (elastic("MIXED+CLOUD"), "no-instance:"),
        (up().with(Deleting), "-"),
        (off().with(Active), "left-running: delete i-1"),
        (off().with(Stopped), "left-running: delete i-1"),
        (elastic("ALLOCATED+CLOUD+POWERED_DOWN").with(Active), "-"),
        (node("IDLE+POWERED_DOWN").with(Active), "-"),
        (elastic("IDLE+CLOUD+POWERED_DOWN+NOT_RESPONDING"), "stuck-off: power-down"),
        (off(), "-"),
        (elastic("ALLOCATED+CLOUD+POWERING_UP"), "nothing-comes: ask"),
        (elastic("ALLOCATED+CLOUD+POWERING_UP").but(paused), "nothing-comes:"),
        (elastic("IDLE+CLOUD+POWERING_UP+POWER_DOWN"), "-"),
        // Slurm has yet to call its hook.
        (elastic("IDLE+CLOUD+POWERED_DOWN+POWER_UP"), "-"),
        (
            elastic("ALLOCATED+CLOUD+POWERING_UP").with(Active),
            "never-came-up: down count-failure delete i-1 resume power-down",
        ),
        (
            elastic("IDLE+CLOUD+NOT_RESPONDING+POWERING_UP").with(Building),
            "never-came-up: down count-failure delete i-1 resume power-down",
        ),
        (node("ALLOCATED+POWERING_UP").with(Active), "-"),
        (down("DOWN+CLOUD"), "down-without-instance: resume power-down"),
        (down("DOWN+CLOUD+POWERED_DOWN"), "down-without-instance: resume power-down"),
        (
            elastic("DOWN+CLOUD+POWERED_DOWN Reason=kiln: no host [slurm@1]"),
            "down-without-instance: resume power-down",
        ),
        (down("DOWN+CLOUD").but(paused), "-"),
        (down("DOWN+CLOUD+POWERING_DOWN"), "-"),
        (down("DOWN+CLOUD+NOT_RESPONDING").with(Active), "lost-elastic: resume power-down"),
        (node(&format!("DOWN*{}{BY_SLURM}", ' ')).with(Active), "lost:"),
        (node("IDLE*").with(Active), "lost:"),
        (node("IDLE+REBOOT_ISSUED+NOT_RESPONDING").with(Active), "-"),
        (off().but(paused), "paused: drain"),
        (up().with(Active).but(paused), "-"),
        (off().but(|o| o.always_up = true), "should-be-up: power-up"),
        (
            off().but(|o| {
                o.always_up = true;
                o.is_published = false;
            }),
            "-",
        ),
        (
            off().but(|o| {
                o.always_up = true;
                paused(o);
            }),
            "paused: drain",
        ),
        (node("IDLE").with(Active).but(|o| o.image = Some("newer".into())), "other-image:"),
        (node("IDLE").with(Active).but(bundle), "old-bundle:"),
        (
            node("IDLE")
                .with(Active)
                .but(bundle)
                .but(|o| o.slurm_mut().extra = Some("kiln-bundle:abcd".into())),
            "-",
        ),
        (node("IDLE").with(Active), "-"),
        (up().with(Active), "-"),
    ]
}

#[test]
fn every_row_of_the_table() {
    for (observation, expected) in rows() {
        assert_eq!(finding(&observation), expected, "{observation:#?}");
    }
}

#[test]
fn no_row_is_without_a_test() {
    let tested: BTreeSet<String> =
        rows().iter().filter_map(|(o, _)| Some(diagnose(o)?.0.name.to_string())).collect();
    let of_nodes = RULES.iter().filter(|rule| matches!(rule.check, Check::Node(_)));
    assert_eq!(tested, of_nodes.map(|rule| rule.name.to_string()).collect());
}

#[test]
fn strays_have_their_rows() {
    let stray = |is_newer_than_fleet| Stray {
        instance: instance("i-1", Active, 1),
        is_newer_than_fleet,
        is_known_to_slurm: false,
    };
    let finding = |stray: &Stray| diagnose_stray(stray).map(|(rule, found)| short(rule, &found));
    assert_eq!(finding(&stray(false)).as_deref(), Some("stray: delete i-1"));
    assert_eq!(finding(&stray(true)).as_deref(), Some("newcomer: delete i-1"));
    let with = |status| Stray { instance: instance("i-1", status, 1), ..stray(false) };
    assert_eq!(finding(&with(Deleting)), None);
    assert_eq!(finding(&with(held())).as_deref(), Some("stray:"));
    // Slurm may run jobs there.
    assert_eq!(finding(&Stray { is_known_to_slurm: true, ..stray(false) }).as_deref(), Some("stray:"));
    assert_eq!(finding(&Stray { is_known_to_slurm: true, ..stray(true) }).as_deref(), Some("newcomer:"));
}

/// Whatever a row would do, these keep it from.
#[test]
fn a_node_that_something_else_has_in_work_is_left_alone() {
    for (observation, expected) in rows().into_iter().filter(|(o, _)| o.slurm.is_some()) {
        let reason_to_leave_alone: [fn(&mut NodeObservation); 7] = [
            |o| o.request = Some(RequestKind::Resume),
            |o| o.rollout = Some(7),
            |o| {
                let node = o.slurm_mut();
                node.state.flags.insert(Flag::Drain);
                node.reason = Some("bad fan".into());
                node.reason_by = Some("root".into());
            },
            |o| {
                let node = o.slurm_mut();
                node.state.base = Base::Down;
                node.reason = Some("bad fan".into());
                node.reason_by = Some("alice".into());
            },
            // By Slurm itself: the node has less than slurm.conf says.
            |o| {
                let node = o.slurm_mut();
                node.state.flags.insert(Flag::Drain);
                node.reason = Some("Low RealMemory".into());
                node.reason_by = Some("slurm".into());
            },
            // In a reservation for maintenance, and about to fail.
            |o| o.slurm_mut().state.flags.insert(Flag::Maintenance),
            |o| o.slurm_mut().state.flags.insert(Flag::Fail),
        ];
        for change in reason_to_leave_alone {
            let changed = observation.clone().but(change);
            assert_eq!(finding(&changed), "-", "{expected}: {changed:#?}");
            assert!(changed.reason_to_leave_alone().is_some());
        }
    }
}

/// Slurm hears from all of them, and the cloud's list may lack any.
#[test]
fn nothing_is_done_to_a_node_that_is_heard_from_on_the_clouds_word_alone() {
    for (observation, _) in rows().into_iter().filter(|(o, _)| o.is_heard_from()) {
        let busy = |o: &mut NodeObservation| o.slurm_mut().allocated = 1;
        for seen in [observation.clone(), observation.but(busy)] {
            let Some((rule, found)) = diagnose(&seen) else { continue };
            // Of two instances of one node, the one that is in use stays. A reason is not the cloud's word.
            let may = ["duplicate", "lost-reason"].contains(&rule.name);
            assert!(may || found.actions.is_empty(), "{}: {seen:#?}", rule.name);
        }
    }
}

#[test]
fn a_list_that_lacks_many_stops_everything() {
    let fleet = |there: usize, missing: usize| Observation {
        nodes: (0..there)
            .map(|_| node("IDLE").with(Active))
            .chain((0..missing).map(|_| node("IDLE*").but(unlisted)))
            .collect(),
        strays: vec![],
    };
    assert_eq!(brake(&fleet(2, 3)), None);
    let text = brake(&fleet(2, 4)).unwrap();
    assert!(text.starts_with("its list lacks the instances of 4 of 6 nodes (n-"), "{text}");
    assert_eq!(brake(&fleet(90, 10)), None, "a tenth");
    assert!(brake(&fleet(89, 11)).is_some());
    // Those that Slurm has powered down need none, and of those in work Kiln knows why.
    let off = elastic("IDLE+CLOUD+POWERED_DOWN").but(unlisted);
    let in_work = node("IDLE*").but(unlisted).but(|o| o.request = Some(RequestKind::Reboot));
    let mut observation = fleet(2, 3);
    observation.nodes.extend([off, in_work]);
    assert_eq!(brake(&observation), None);
}

/// An instance under a job that runs is only deleted if another one is known to run the job, or if it cannot run anything.
#[test]
fn no_instance_is_deleted_under_a_running_job() {
    for (observation, _) in rows() {
        let busy = observation.but(|o| {
            if let Some(node) = o.slurm.as_mut().filter(|n| n.state.base == Base::Idle) {
                node.state.base = Base::Allocated;
                node.allocated = 1;
            }
        });
        let Some((_, found)) = diagnose(&busy).filter(|_| busy.runs_jobs()) else { continue };
        for action in found.actions {
            let Action::Delete { instance } = action else { continue };
            let doomed = busy.instances.iter().find(|i| i.id == instance).unwrap();
            let in_use = busy.reached_at.is_none_or(|at| doomed.address == Some(at));
            let runs = !matches!(doomed.status, Stopped) && (busy.is_responding() || doomed.status == Active);
            assert!(!(in_use && runs), "{busy:#?}");
        }
    }
}

#[test]
fn reasons_are_kilns_own() {
    for (observation, _) in rows() {
        let Some((_, found)) = diagnose(&observation) else { continue };
        for action in found.actions {
            if let Action::Down { reason } | Action::Drain { reason } = action {
                assert!(reason.starts_with("kiln: "), "{reason}");
            }
        }
    }
}

#[test]
fn grace_is_given_once_and_an_action_is_not_repeated_in_every_round() {
    let timing = Timing { reconcile: 30, grace: 120, ..Timing::default() };
    let times = Times { timing, resume_timeout: 300 };
    let observation =
        Observation { nodes: vec![elastic("IDLE+CLOUD+POWERED_DOWN").with(Active)], strays: vec![] };
    let round = |before: &[FindingRecord], at: i64| plan(&observation, before, &times, second(at)).remove(0);
    let first = round(&[], 1000);
    assert_eq!((first.since, first.due), (second(1000), Some(second(1120))));
    assert!(!first.is_due(second(1119)) && first.is_due(second(1120)));
    let mut finding = FindingRecord {
        subject: "n-0".into(),
        rule: "left-running".into(),
        since: second(1000),
        text: String::new(),
        acted: None,
    };
    assert!(round(std::slice::from_ref(&finding), 1130).is_due(second(1130)));
    finding.acted = Some(second(1130));
    let later = round(std::slice::from_ref(&finding), 1160);
    assert_eq!(later.due, Some(second(1250)));
    // Another finding of the same node starts its own clock.
    finding.rule = "stray".into();
    assert_eq!(round(&[finding], 1160).since, second(1160));
}

#[test]
fn what_is_only_reported_is_never_due() {
    let observation = Observation {
        nodes: vec![node("IDLE").with(Active).but(|o| o.image = Some("newer".into()))],
        strays: vec![],
    };
    let times = Times { timing: Timing::default(), resume_timeout: 300 };
    let finding = plan(&observation, &[], &times, second(0)).remove(0);
    assert!(finding.due.is_none() && !finding.is_due(second(9_999_999)));
}
