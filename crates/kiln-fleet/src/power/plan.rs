//! What a request to power a node up or down needs next. Pure: the request and what was observed give the action.

use jiff::{SignedDuration, Timestamp};
use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::{BOOT_TIME_ROUNDING, Node};

use super::observe::NodeObservation;
use crate::cloud_view::is_held;
use crate::store::{Request, RequestKind};

/// Slurm gives a node whose job cannot start to other jobs that wait, if there are any.
const OTHER_JOBS: SignedDuration = SignedDuration::from_secs(5);
/// A job that is cancelled leaves its nodes in less.
const LONGEST_COMPLETION: SignedDuration = SignedDuration::from_secs(300);
/// Slurm shows that it waits for a node some time before or after it calls the hook.
const SETTLING: SignedDuration = SignedDuration::from_secs(10);
/// A build that ends in error is tried this many times, and at least once in each place.
pub const BUILDS: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Done(&'static str),
    Create,
    /// Delete these instances, by id; then observe again.
    Delete(Vec<String>),
    /// The same for a node that did not come up: the failure is counted for its group.
    GiveUp(Vec<String>),
    /// Delete the instance that the cloud could not build, and create another.
    BuildAgain {
        id: String,
        problem: String,
    },
    /// Nothing is created in its group at present, for this reason.
    Refuse(String),
    Fail(String),
    /// Have Slurm power the node down, unless a job has it.
    PowerDown,
    Wait,
}

pub fn plan(request: &Request, seen: &NodeObservation<'_>, now: Timestamp) -> Action {
    match request.kind {
        RequestKind::Resume => resume(request, seen, now),
        RequestKind::TakeBack => take_back(request, seen, now),
        _ => suspend(request, seen),
    }
}

fn resume(request: &Request, seen: &NodeObservation<'_>, now: Timestamp) -> Action {
    let settled = now.duration_since(request.received) > SETTLING;
    match seen.slurm {
        Some(node) if node.state.in_service() => return Action::Done("in service already"),
        Some(node) if settled && !node.state.is_powering_up() => {
            return Action::Done("skipped: Slurm does not wait for the node any more");
        }
        _ => {}
    }
    // It may have one: another would be one too many.
    if seen.is_in_doubt {
        return Action::Wait;
    }
    let is_unwanted = |i: &Instance| {
        let old = seen.asked.down.is_some_and(|down| seen.first_seen(i) < down);
        let unwanted = old || i.status == InstanceStatus::Stopped || has_booted_before(request, seen, i);
        unwanted && !is_held(i)
    };
    let to_delete: Vec<&Instance> = seen.instances.iter().filter(|i| is_unwanted(i)).copied().collect();
    if !to_delete.is_empty() {
        return delete(&to_delete);
    }
    let Some(instance) = seen.instances.first() else {
        return match &seen.paused {
            Some(why) => Action::Refuse(why.clone()),
            // Only a cloud that boots in a second or two has to be waited for.
            None if now < request.received + BOOT_TIME_ROUNDING => Action::Wait,
            None => Action::Create,
        };
    };
    match &instance.status {
        InstanceStatus::Active => Action::Done("created"),
        InstanceStatus::Held { how } => {
            Action::Fail(format!("somebody has set its instance aside: it is {how}"))
        }
        InstanceStatus::Error { reason } => {
            let most = BUILDS.max(u32::try_from(seen.places).unwrap_or(u32::MAX));
            if request.attempts >= most {
                let times = if most > 1 { format!(" (tried {most} times)") } else { String::new() };
                Action::Fail(format!("the cloud could not build the instance: {reason}{times}"))
            } else {
                Action::BuildAgain { id: instance.id.clone(), problem: reason.clone() }
            }
        }
        _ => Action::Wait,
    }
}

/// Some releases call the resume hook for a job that wants its node rebooted. Slurm then waits for a boot that is younger than
/// its request, which a node of an elastic group gets as a new instance.
fn has_booted_before(request: &Request, seen: &NodeObservation<'_>, instance: &Instance) -> bool {
    let Some(booted) = seen.slurm.and_then(|node| node.booted) else { return false };
    // Slurm still has the boot time of an instance that went before.
    let of_this_one = booted >= seen.first_seen(instance) - BOOT_TIME_ROUNDING;
    of_this_one && booted < request.received - BOOT_TIME_ROUNDING
}

fn suspend(request: &Request, seen: &NodeObservation<'_>) -> Action {
    // The request may have waited for long: a node that came up late takes jobs, whoever gave it up before.
    if let Some(why) = seen.slurm.and_then(left_alone) {
        return Action::Done(why);
    }
    if seen.is_in_doubt {
        return Action::Wait;
    }
    // A younger instance was created for a later request, if there was one; else it was being created when this one came.
    let asked_since = seen.asked.up.is_some_and(|up| up > request.received);
    let is_kept = |i: &Instance| (asked_since && seen.first_seen(i) > request.received) || is_held(i);
    let to_delete: Vec<&Instance> = seen.instances.iter().filter(|i| !is_kept(i)).copied().collect();
    if to_delete.is_empty() {
        let held = seen.instances.iter().any(|instance| is_held(instance));
        return Action::Done(match (request.operation, held) {
            // The reconciler reports it for as long as it is there, and has it deleted once nobody holds it any more.
            (_, true) => "left alone: somebody has set its instance aside",
            (Some(_), false) => "deleted",
            (None, false) => "there was nothing to delete",
        });
    }
    // Where a younger instance came up, the group is not at fault. Nor is it where kilnd was away and created none.
    let none_came_up = to_delete.iter().all(|i| seen.proven.is_none_or(|proven| proven < seen.first_seen(i)));
    // One that was created late, in place of another that was lost, had no time to boot.
    let had_time = |i: &&Instance| request.received.duration_since(seen.first_seen(i)) >= seen.time_to_boot;
    let none_came_up = none_came_up && to_delete.iter().any(had_time);
    match delete(&to_delete) {
        Action::Delete(ids)
            if request.kind == RequestKind::GiveUp && request.operation.is_none() && none_came_up =>
        {
            Action::GiveUp(ids)
        }
        action => action,
    }
}

/// A node that came up, or is about to, for jobs alone that cannot have all their nodes.
fn take_back(request: &Request, seen: &NodeObservation<'_>, now: Timestamp) -> Action {
    let age = now.duration_since(request.received);
    let Some(node) = seen.slurm else { return Action::Done("skipped: Slurm does not know the node") };
    if node.state.is_powering_down_or_off() {
        return Action::Done("powered down already");
    }
    if node.is_drained_by_others() {
        return Action::Done("left alone: drained by somebody else");
    }
    if age < OTHER_JOBS || (node.state.is_ending_jobs() && age < LONGEST_COMPLETION) {
        return Action::Wait;
    }
    if node.carries_jobs() { Action::Done("left alone: a job has the node") } else { Action::PowerDown }
}

/// Why a node keeps its instance, whatever was asked for before.
pub fn left_alone(node: &Node) -> Option<&'static str> {
    if node.state.in_service() {
        return Some("left alone: Slurm has the node in service");
    }
    node.needs_instance_for_jobs().then_some("left alone: jobs run there")
}

fn delete(to_delete: &[&Instance]) -> Action {
    let ids: Vec<String> =
        to_delete.iter().filter(|i| i.status != InstanceStatus::Deleting).map(|i| i.id.clone()).collect();
    if ids.is_empty() { Action::Wait } else { Action::Delete(ids) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::{KnownInstance, PowerTimes, RequestState};
    use kiln_cloud::testing;

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    fn request(kind: RequestKind, attempts: u32) -> Request {
        Request {
            id: 1,
            kind,
            node: "e-0".into(),
            image: None,
            received: second(100),
            state: RequestState::Queued,
            attempts,
            error: None,
            next_try: second(100),
            operation: None,
            began: None,
            built_before: None,
            finished: None,
            jobs: None,
        }
    }

    /// The cloud's clock is an hour behind.
    fn instance(status: InstanceStatus, first_seen: i64) -> Instance {
        Instance { id: "i".into(), status, created: second(first_seen - 3600), ..testing::instance("e-0") }
    }

    fn known(instance: Option<&Instance>) -> BTreeMap<String, KnownInstance> {
        let known = |i: &Instance| {
            let first_seen = i.created + SignedDuration::from_secs(3600);
            (i.id.clone(), KnownInstance { node: "e-0".into(), first_seen })
        };
        instance.map(known).into_iter().collect()
    }

    fn node(state: &str) -> Node {
        let text = format!("NodeName=e-0 State={state}");
        kiln_slurm::parse_node(&text).unwrap()
    }

    const TIME_TO_BOOT: SignedDuration = SignedDuration::from_secs(50);
    const UP: &str = "ALLOCATED+CLOUD+POWERING_UP";

    #[test]
    fn every_row_of_powering_up() {
        use InstanceStatus::{Active, Building, Deleting, Error, Stopped};
        let broken = || Error { reason: "no host".into() };
        let delete = || Action::Delete(vec!["i".into()]);
        // instance and its age; Slurm's state; powered down at; attempts; observed at; action
        let rows = [
            (None, UP, None, 0, 101, Action::Wait),
            (None, UP, None, 0, 102, Action::Create),
            (None, UP, Some(50), 0, 102, Action::Create),
            (Some((Building, 101)), UP, Some(50), 1, 102, Action::Wait),
            (Some((Active, 101)), UP, Some(50), 1, 102, Action::Done("created")),
            // Not told of it, but there: Slurm would wait for its boot.
            (Some((Active, 40)), UP, None, 0, 102, Action::Done("created")),
            (Some((Active, 40)), UP, Some(50), 0, 102, delete()),
            (Some((Deleting, 40)), UP, Some(50), 0, 102, Action::Wait),
            (Some((Stopped, 101)), UP, Some(50), 1, 102, delete()),
            (
                Some((broken(), 101)),
                UP,
                None,
                1,
                102,
                Action::BuildAgain { id: "i".into(), problem: "no host".into() },
            ),
            (
                Some((broken(), 101)),
                UP,
                None,
                2,
                102,
                Action::Fail("the cloud could not build the instance: no host (tried 2 times)".into()),
            ),
            (None, "IDLE+CLOUD", None, 0, 101, Action::Done("in service already")),
            (None, "IDLE+CLOUD+POWERED_DOWN", None, 0, 105, Action::Create),
            (
                None,
                "DOWN+CLOUD",
                None,
                0,
                120,
                Action::Done("skipped: Slurm does not wait for the node any more"),
            ),
        ];
        for (there, state, down, attempts, at, action) in rows {
            let instance = there.map(|(status, created)| instance(status, created));
            let slurm = node(state);
            let seen = NodeObservation {
                is_in_doubt: false,
                instances: instance.iter().collect(),
                known: &known(instance.as_ref()),
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(100)), down: down.map(second) },
                paused: None,
                places: 1,
                time_to_boot: TIME_TO_BOOT,
                proven: None,
            };
            assert_eq!(
                plan(&request(RequestKind::Resume, attempts), &seen, second(at)),
                action,
                "{instance:?} {state}"
            );
        }
    }

    #[test]
    fn a_node_that_is_up_and_is_to_boot_gets_a_new_instance() {
        // made, booted; asked for at 100
        for (created, booted, step) in [
            (40, Some(55), Action::Delete(vec!["i".into()])),
            (40, Some(39), Action::Delete(vec!["i".into()])),
            // As it is told right after the boot.
            (102, Some(101), Action::Done("created")),
            (40, Some(99), Action::Done("created")),
            // The boot of one before it, and one that has yet to boot.
            (104, Some(55), Action::Done("created")),
            (40, None, Action::Done("created")),
        ] {
            let instance = instance(InstanceStatus::Active, created);
            let slurm = Node { booted: booted.map(second), ..node(UP) };
            let seen = NodeObservation {
                is_in_doubt: false,
                instances: vec![&instance],
                known: &known(Some(&instance)),
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(100)), down: None },
                paused: None,
                places: 1,
                time_to_boot: TIME_TO_BOOT,
                proven: None,
            };
            assert_eq!(
                plan(&request(RequestKind::Resume, 0), &seen, second(105)),
                step,
                "made {created}, booted {booted:?}"
            );
        }
    }

    #[test]
    fn every_row_of_powering_down() {
        use InstanceStatus::{Active, Deleting};
        let delete = || Action::Delete(vec!["i".into()]);
        let give_up = || Action::GiveUp(vec!["i".into()]);
        let in_service = || Action::Done("left alone: Slurm has the node in service");
        let jobs = || Action::Done("left alone: jobs run there");
        let rows = [
            (RequestKind::Suspend, Some((Active, 40)), "IDLE+CLOUD+POWERING_DOWN", delete()),
            (RequestKind::Suspend, Some((Active, 40)), "ALLOCATED+CLOUD+POWERING_UP", delete()),
            (RequestKind::Suspend, Some((Active, 40)), "ALLOCATED+CLOUD", in_service()),
            (RequestKind::Suspend, Some((Deleting, 40)), "IDLE+CLOUD+POWERED_DOWN", Action::Wait),
            // It was being made when the request came.
            (RequestKind::Suspend, Some((Active, 101)), "IDLE+CLOUD+POWERED_DOWN", delete()),
            (
                RequestKind::Suspend,
                None,
                "IDLE+CLOUD+POWERED_DOWN",
                Action::Done("there was nothing to delete"),
            ),
            (RequestKind::GiveUp, Some((Active, 40)), "DOWN+CLOUD+POWERED_DOWN", give_up()),
            (RequestKind::GiveUp, Some((Active, 40)), "DOWN+CLOUD+NOT_RESPONDING", give_up()),
            // Created late: its group is not at fault.
            (RequestKind::GiveUp, Some((Active, 60)), "DOWN+CLOUD+NOT_RESPONDING", delete()),
            // It came up after all.
            (RequestKind::GiveUp, Some((Active, 40)), "IDLE+CLOUD", in_service()),
            (RequestKind::GiveUp, Some((Active, 40)), "ALLOCATED+CLOUD", in_service()),
            // Out of service, but not without jobs.
            (RequestKind::Suspend, Some((Active, 40)), "MIXED+CLOUD+DRAIN", jobs()),
            (RequestKind::Suspend, Some((Active, 40)), "ALLOCATED+CLOUD+NOT_RESPONDING", jobs()),
            (RequestKind::GiveUp, Some((Active, 40)), "ALLOCATED+CLOUD+DRAIN", jobs()),
            (RequestKind::Suspend, Some((Active, 40)), "MIXED+CLOUD+DRAIN+POWER_DOWN", jobs()),
            (RequestKind::Suspend, Some((Active, 40)), "IDLE+CLOUD+DRAIN", delete()),
            // Slurm takes the jobs off it, or has yet to start them.
            (RequestKind::Suspend, Some((Active, 40)), "ALLOCATED+CLOUD+POWERING_DOWN", delete()),
        ];
        for (kind, there, state, step) in rows {
            let instance = there.map(|(status, created)| instance(status, created));
            let slurm = node(state);
            let seen = NodeObservation {
                is_in_doubt: false,
                instances: instance.iter().collect(),
                known: &known(instance.as_ref()),
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(30)), down: Some(second(100)) },
                paused: None,
                places: 1,
                time_to_boot: TIME_TO_BOOT,
                proven: None,
            };
            assert_eq!(plan(&request(kind, 0), &seen, second(101)), step, "{kind:?} {instance:?} {state}");
        }
    }

    /// A request that lay in the spool while a later one was carried out.
    #[test]
    fn an_instance_of_a_later_request_is_kept() {
        let slurm = node("IDLE+CLOUD+POWERING_UP");
        let late = |created: i64, up: i64| {
            let instance = instance(InstanceStatus::Active, created);
            let seen = NodeObservation {
                is_in_doubt: false,
                instances: vec![&instance],
                known: &known(Some(&instance)),
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(up)), down: Some(second(100)) },
                paused: None,
                places: 1,
                time_to_boot: TIME_TO_BOOT,
                proven: None,
            };
            plan(&request(RequestKind::Suspend, 0), &seen, second(120))
        };
        assert_eq!(late(110, 105), Action::Done("there was nothing to delete"));
        assert_eq!(late(40, 105), Action::Delete(vec!["i".into()]));
        assert_eq!(late(110, 30), Action::Delete(vec!["i".into()]));
    }

    #[test]
    fn a_failure_is_counted_once_and_only_where_no_node_came_up() {
        let slurm = node("DOWN+CLOUD");
        let late = instance(InstanceStatus::Active, 40);
        let asked = |operation, proven: Option<i64>| {
            let seen = NodeObservation {
                is_in_doubt: false,
                instances: vec![&late],
                known: &known(Some(&late)),
                slurm: Some(&slurm),
                asked: PowerTimes::default(),
                paused: None,
                places: 1,
                time_to_boot: TIME_TO_BOOT,
                proven: proven.map(second),
            };
            plan(&Request { operation, ..request(RequestKind::GiveUp, 0) }, &seen, second(101))
        };
        let ids = || vec!["i".to_string()];
        assert_eq!(asked(None, None), Action::GiveUp(ids()));
        assert_eq!(asked(None, Some(39)), Action::GiveUp(ids()));
        assert_eq!(asked(None, Some(41)), Action::Delete(ids()));
        assert_eq!(asked(Some(crate::store::CloudOperation::Delete), None), Action::Delete(ids()));
    }

    #[test]
    fn a_paused_group_creates_nothing() {
        let slurm = node(UP);
        let seen = NodeObservation {
            is_in_doubt: false,
            instances: vec![],
            known: &known(None),
            slurm: Some(&slurm),
            asked: PowerTimes::default(),
            paused: Some("no room".into()),
            places: 1,
            time_to_boot: TIME_TO_BOOT,
            proven: None,
        };
        assert_eq!(
            plan(&request(RequestKind::Resume, 0), &seen, second(101)),
            Action::Refuse("no room".into())
        );
    }

    #[test]
    fn what_a_person_has_set_aside_is_neither_used_nor_deleted() {
        let held = instance(InstanceStatus::Held { how: "rescue".into() }, 40);
        let left_alone = || Action::Done("left alone: somebody has set its instance aside");
        for (kind, state, action) in [
            (
                RequestKind::Resume,
                UP,
                Action::Fail("somebody has set its instance aside: it is rescue".into()),
            ),
            (RequestKind::Suspend, "IDLE+CLOUD+POWERING_DOWN", left_alone()),
            (RequestKind::GiveUp, "DOWN+CLOUD", left_alone()),
        ] {
            let slurm = node(state);
            let seen = NodeObservation {
                is_in_doubt: false,
                instances: vec![&held],
                known: &known(Some(&held)),
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(100)), down: Some(second(50)) },
                paused: None,
                places: 1,
                time_to_boot: TIME_TO_BOOT,
                proven: None,
            };
            assert_eq!(plan(&request(kind, 0), &seen, second(102)), action, "{kind:?}");
        }
    }

    #[test]
    fn every_row_of_taking_back() {
        let rows = [
            // Slurm may have another job for it.
            ("IDLE+CLOUD+POWERING_UP", 101, Action::Wait),
            ("IDLE+CLOUD+POWERING_UP", 106, Action::PowerDown),
            ("IDLE+CLOUD", 106, Action::PowerDown),
            ("ALLOCATED+CLOUD+POWERING_UP", 106, Action::Done("left alone: a job has the node")),
            ("MIXED+CLOUD", 106, Action::Done("left alone: a job has the node")),
            ("IDLE+CLOUD+COMPLETING", 106, Action::Wait),
            ("IDLE+CLOUD+COMPLETING", 500, Action::Done("left alone: a job has the node")),
            ("IDLE+CLOUD+POWERED_DOWN", 106, Action::Done("powered down already")),
            ("IDLE+CLOUD+DRAIN", 106, Action::Done("left alone: drained by somebody else")),
        ];
        for (state, at, action) in rows {
            let slurm = node(state);
            let seen = NodeObservation {
                is_in_doubt: false,
                instances: vec![],
                known: &known(None),
                slurm: Some(&slurm),
                asked: PowerTimes::default(),
                paused: None,
                places: 1,
                time_to_boot: TIME_TO_BOOT,
                proven: None,
            };
            assert_eq!(plan(&request(RequestKind::TakeBack, 0), &seen, second(at)), action, "{state}");
        }
    }
}
