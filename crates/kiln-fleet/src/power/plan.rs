//! What a request to power a node up or down needs next. Pure: the request and what was observed give the step.

use jiff::{SignedDuration, Timestamp};
use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::{BOOT_TIME_ROUNDING, Node};

use crate::store::{PowerTimes, Request, RequestKind};

/// Slurm shows that it waits for a node a moment after, or before, it calls the hook.
const SETTLING: SignedDuration = SignedDuration::from_secs(10);
/// A build that ends in error is tried this many times, and at least once in each place.
pub const BUILDS: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Done(&'static str),
    Create,
    /// These instances, by id; then look again.
    Delete(Vec<String>),
    /// The same, of a node that did not come up: its group is charged with it.
    GiveUp(Vec<String>),
    /// Delete the instance that the cloud could not build, and try anew.
    BuildAgain {
        id: String,
        problem: String,
    },
    Fail(String),
    Wait,
}

pub struct Seen<'a> {
    /// Of this node alone.
    pub instances: Vec<&'a Instance>,
    pub slurm: Option<&'a Node>,
    pub asked: PowerTimes,
    /// Why the node's group is left alone, if it is.
    pub paused: Option<String>,
    /// How many places the group may be in.
    pub places: usize,
    /// When the youngest instance of the group was made whose node is in service.
    pub proven: Option<Timestamp>,
}

pub fn decide(request: &Request, seen: &Seen<'_>, now: Timestamp) -> Step {
    match request.kind {
        RequestKind::Resume => resume(request, seen, now),
        _ => suspend(request, seen),
    }
}

fn resume(request: &Request, seen: &Seen<'_>, now: Timestamp) -> Step {
    let settled = now.duration_since(request.received) > SETTLING;
    match seen.slurm {
        Some(node) if node.state.in_service() => return Step::Done("in service already"),
        Some(node) if settled && !node.state.is_powering_up() => {
            return Step::Done("passed over: Slurm does not wait for the node any more");
        }
        _ => {}
    }
    let unwanted = |i: &Instance| {
        let old = seen.asked.down.is_some_and(|down| i.created < down);
        old || i.status == InstanceStatus::Stopped || has_booted_before(request, seen.slurm, i)
    };
    let doomed: Vec<&Instance> = seen.instances.iter().filter(|i| unwanted(i)).copied().collect();
    if !doomed.is_empty() {
        return delete(&doomed);
    }
    let Some(instance) = seen.instances.first() else {
        return match &seen.paused {
            Some(why) => Step::Fail(why.clone()),
            // Only a cloud that boots in a second or two has to be waited for.
            None if now < request.received + BOOT_TIME_ROUNDING => Step::Wait,
            None => Step::Create,
        };
    };
    match &instance.status {
        InstanceStatus::Active => Step::Done("created"),
        InstanceStatus::Error { reason } => {
            let most = BUILDS.max(u32::try_from(seen.places).unwrap_or(u32::MAX));
            if request.attempts >= most {
                let times = if most > 1 { format!(" (tried {most} times)") } else { String::new() };
                Step::Fail(format!("the cloud could not build the instance: {reason}{times}"))
            } else {
                Step::BuildAgain { id: instance.id.clone(), problem: reason.clone() }
            }
        }
        _ => Step::Wait,
    }
}

/// Some releases call the resume hook for a job that wants its node rebooted. Slurm then waits for a boot that is younger than
/// its request, which a node of an elastic group gets as a new instance.
fn has_booted_before(request: &Request, node: Option<&Node>, instance: &Instance) -> bool {
    let Some(booted) = node.and_then(|node| node.booted) else { return false };
    // Slurm still has the boot time of an instance that went before.
    let of_this_one = booted >= instance.created - BOOT_TIME_ROUNDING;
    of_this_one && booted < request.received - BOOT_TIME_ROUNDING
}

fn suspend(request: &Request, seen: &Seen<'_>) -> Step {
    // The request may have waited for long: a node that came up late takes jobs, whoever gave it up before.
    if let Some(why) = seen.slurm.and_then(left_alone) {
        return Step::Done(why);
    }
    // A younger one was made for a later request, if there was one: else it was being made when this one came.
    let asked_since = seen.asked.up.is_some_and(|up| up > request.received);
    let spared = |i: &Instance| asked_since && i.created > request.received;
    let doomed: Vec<&Instance> = seen.instances.iter().filter(|i| !spared(i)).copied().collect();
    if doomed.is_empty() {
        return Step::Done(if request.operation.is_some() {
            "deleted"
        } else {
            "there was nothing to delete"
        });
    }
    // Where a later one came up, it is not the group's fault. Nor is it where kilnd was away, and made none.
    let in_vain = doomed.iter().all(|i| seen.proven.is_none_or(|proven| proven < i.created));
    match delete(&doomed) {
        Step::Delete(ids)
            if request.kind == RequestKind::GiveUp && request.operation.is_none() && in_vain =>
        {
            Step::GiveUp(ids)
        }
        step => step,
    }
}

/// Why a node keeps its instance, whatever was asked before.
pub fn left_alone(node: &Node) -> Option<&'static str> {
    if node.state.in_service() {
        return Some("left alone: Slurm has the node in service");
    }
    node.needs_instance_for_jobs().then_some("left alone: jobs run there")
}

fn delete(doomed: &[&Instance]) -> Step {
    let ids: Vec<String> =
        doomed.iter().filter(|i| i.status != InstanceStatus::Deleting).map(|i| i.id.clone()).collect();
    if ids.is_empty() { Step::Wait } else { Step::Delete(ids) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RequestState;

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
            finished: None,
            jobs: None,
        }
    }

    fn instance(status: InstanceStatus, created: i64) -> Instance {
        Instance {
            id: "i".into(),
            name: "e-0".into(),
            status,
            image: None,
            flavor: "f".into(),
            public_address: None,
            address: None,
            labels: kiln_cloud::Labels::new(),
            volumes: vec![],
            created: second(created),
            built: None,
        }
    }

    fn node(state: &str) -> Node {
        let text = format!("NodeName=e-0 State={state}");
        kiln_slurm::parse_node(&text).unwrap()
    }

    const UP: &str = "ALLOCATED+CLOUD+POWERING_UP";

    #[test]
    fn every_row_of_powering_up() {
        use InstanceStatus::{Active, Building, Deleting, Error, Stopped};
        let broken = || Error { reason: "no host".into() };
        let delete = || Step::Delete(vec!["i".into()]);
        // instance and its age; Slurm's state; powered down at; attempts; looked at; step
        let rows = [
            (None, UP, None, 0, 101, Step::Wait),
            (None, UP, None, 0, 102, Step::Create),
            (None, UP, Some(50), 0, 102, Step::Create),
            (Some((Building, 101)), UP, Some(50), 1, 102, Step::Wait),
            (Some((Active, 101)), UP, Some(50), 1, 102, Step::Done("created")),
            // Not told of it, but there: Slurm would wait for its boot.
            (Some((Active, 40)), UP, None, 0, 102, Step::Done("created")),
            (Some((Active, 40)), UP, Some(50), 0, 102, delete()),
            (Some((Deleting, 40)), UP, Some(50), 0, 102, Step::Wait),
            (Some((Stopped, 101)), UP, Some(50), 1, 102, delete()),
            (
                Some((broken(), 101)),
                UP,
                None,
                1,
                102,
                Step::BuildAgain { id: "i".into(), problem: "no host".into() },
            ),
            (
                Some((broken(), 101)),
                UP,
                None,
                2,
                102,
                Step::Fail("the cloud could not build the instance: no host (tried 2 times)".into()),
            ),
            (None, "IDLE+CLOUD", None, 0, 101, Step::Done("in service already")),
            (None, "IDLE+CLOUD+POWERED_DOWN", None, 0, 105, Step::Create),
            (
                None,
                "DOWN+CLOUD",
                None,
                0,
                120,
                Step::Done("passed over: Slurm does not wait for the node any more"),
            ),
        ];
        for (there, state, down, attempts, at, step) in rows {
            let instance = there.map(|(status, created)| instance(status, created));
            let slurm = node(state);
            let seen = Seen {
                instances: instance.iter().collect(),
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(100)), down: down.map(second) },
                paused: None,
                places: 1,
                proven: None,
            };
            assert_eq!(
                decide(&request(RequestKind::Resume, attempts), &seen, second(at)),
                step,
                "{instance:?} {state}"
            );
        }
    }

    #[test]
    fn a_node_that_is_up_and_is_to_boot_gets_a_new_instance() {
        // made, booted; asked for at 100
        for (created, booted, step) in [
            (40, Some(55), Step::Delete(vec!["i".into()])),
            (40, Some(39), Step::Delete(vec!["i".into()])),
            // As it is told right after the boot.
            (102, Some(101), Step::Done("created")),
            (40, Some(99), Step::Done("created")),
            // The boot of one before it, and one that has yet to boot.
            (104, Some(55), Step::Done("created")),
            (40, None, Step::Done("created")),
        ] {
            let instance = instance(InstanceStatus::Active, created);
            let slurm = Node { booted: booted.map(second), ..node(UP) };
            let seen = Seen {
                instances: vec![&instance],
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(100)), down: None },
                paused: None,
                places: 1,
                proven: None,
            };
            assert_eq!(
                decide(&request(RequestKind::Resume, 0), &seen, second(105)),
                step,
                "made {created}, booted {booted:?}"
            );
        }
    }

    #[test]
    fn every_row_of_powering_down() {
        use InstanceStatus::{Active, Deleting};
        let delete = || Step::Delete(vec!["i".into()]);
        let give_up = || Step::GiveUp(vec!["i".into()]);
        let in_service = || Step::Done("left alone: Slurm has the node in service");
        let jobs = || Step::Done("left alone: jobs run there");
        let rows = [
            (RequestKind::Suspend, Some((Active, 40)), "IDLE+CLOUD+POWERING_DOWN", delete()),
            (RequestKind::Suspend, Some((Active, 40)), "ALLOCATED+CLOUD+POWERING_UP", delete()),
            (RequestKind::Suspend, Some((Active, 40)), "ALLOCATED+CLOUD", in_service()),
            (RequestKind::Suspend, Some((Deleting, 40)), "IDLE+CLOUD+POWERED_DOWN", Step::Wait),
            // It was being made when the request came.
            (RequestKind::Suspend, Some((Active, 101)), "IDLE+CLOUD+POWERED_DOWN", delete()),
            (
                RequestKind::Suspend,
                None,
                "IDLE+CLOUD+POWERED_DOWN",
                Step::Done("there was nothing to delete"),
            ),
            (RequestKind::GiveUp, Some((Active, 40)), "DOWN+CLOUD+POWERED_DOWN", give_up()),
            (RequestKind::GiveUp, Some((Active, 40)), "DOWN+CLOUD+NOT_RESPONDING", give_up()),
            // It came all the same.
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
            let seen = Seen {
                instances: instance.iter().collect(),
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(30)), down: Some(second(100)) },
                paused: None,
                places: 1,
                proven: None,
            };
            assert_eq!(decide(&request(kind, 0), &seen, second(101)), step, "{kind:?} {instance:?} {state}");
        }
    }

    /// A request that lay in the spool while a later one was carried out.
    #[test]
    fn what_was_made_for_a_later_request_is_spared() {
        let slurm = node("IDLE+CLOUD+POWERING_UP");
        let late = |created: i64, up: i64| {
            let instance = instance(InstanceStatus::Active, created);
            let seen = Seen {
                instances: vec![&instance],
                slurm: Some(&slurm),
                asked: PowerTimes { up: Some(second(up)), down: Some(second(100)) },
                paused: None,
                places: 1,
                proven: None,
            };
            decide(&request(RequestKind::Suspend, 0), &seen, second(120))
        };
        assert_eq!(late(110, 105), Step::Done("there was nothing to delete"));
        assert_eq!(late(40, 105), Step::Delete(vec!["i".into()]));
        assert_eq!(late(110, 30), Step::Delete(vec!["i".into()]));
    }

    #[test]
    fn a_group_is_charged_once_and_only_where_none_came_up() {
        let slurm = node("DOWN+CLOUD");
        let late = instance(InstanceStatus::Active, 40);
        let asked = |operation, proven: Option<i64>| {
            let seen = Seen {
                instances: vec![&late],
                slurm: Some(&slurm),
                asked: PowerTimes::default(),
                paused: None,
                places: 1,
                proven: proven.map(second),
            };
            decide(&Request { operation, ..request(RequestKind::GiveUp, 0) }, &seen, second(101))
        };
        let ids = || vec!["i".to_string()];
        assert_eq!(asked(None, None), Step::GiveUp(ids()));
        assert_eq!(asked(None, Some(39)), Step::GiveUp(ids()));
        assert_eq!(asked(None, Some(41)), Step::Delete(ids()));
        assert_eq!(asked(Some(crate::store::CloudOperation::Delete), None), Step::Delete(ids()));
    }

    #[test]
    fn a_paused_group_makes_nothing() {
        let slurm = node(UP);
        let seen = Seen {
            instances: vec![],
            slurm: Some(&slurm),
            asked: PowerTimes::default(),
            paused: Some("no room".into()),
            places: 1,
            proven: None,
        };
        assert_eq!(
            decide(&request(RequestKind::Resume, 0), &seen, second(101)),
            Step::Fail("no room".into())
        );
    }
}
