//! What a request to reboot or rebuild a node needs next. Pure: the request, the target and what was observed give the action.

use std::time::Duration;

use kiln_cloud::{Instance, InstanceStatus};

use super::observe::Observation;
use crate::cloud_view::image_of;
use crate::store::{CloudOperation, Request, RequestKind};

/// A rebuild that ends in error is tried this many times.
const BUILDS: u32 = 3;
/// A build that takes longer is stuck, and keeps others waiting.
const LONGEST_BUILD: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Rebuild {
        image: String,
    },
    Reboot,
    Start,
    /// The cloud is at work on the instance; observe again.
    Wait,
    Finish(&'static str),
    /// This attempt is over; worth another one later.
    Retry(String),
    Fail(String),
}

impl Action {
    /// Whatever runs on the node would end with it.
    pub fn touches_the_node(&self) -> bool {
        matches!(self, Action::Rebuild { .. } | Action::Reboot | Action::Start)
    }
}

/// `target`: the image the node is to have.
pub fn plan(request: &Request, target: Option<&str>, seen: &Observation) -> Action {
    let Some(instance) = &seen.instance else {
        let problem = "the cloud has no such instance; `kiln apply` and `kiln configure` recreate it";
        return Action::Fail(problem.into());
    };
    if let InstanceStatus::Held { how } = &instance.status {
        return Action::Fail(format!("somebody has set its instance aside: it is {how}"));
    }
    let to_boot = request.kind == RequestKind::Reboot && !seen.booted_since;
    let done = seen.begun.or(seen.done_before);
    let needed = match (needed(instance, target, to_boot), target) {
        // A rollout wants a fresh root, also of the image that is there: the node did not come up with it.
        (Needed::Nothing, Some(image)) if request.kind == RequestKind::Rebuild && done.is_none() => {
            Needed::Rebuild { image: image.to_string() }
        }
        (needed, _) => needed,
    };
    match (needed, done) {
        (Needed::Time, _) if seen.elapsed > LONGEST_BUILD => Action::Fail(format!(
            "the instance is {} for {} minutes",
            instance.status.word(),
            LONGEST_BUILD.as_secs() / 60
        )),
        (Needed::Time, _) => Action::Wait,
        (Needed::Nothing, None) => Action::Finish("nothing to do: booted since the request"),
        // A second time would be one too many.
        (Needed::Nothing | Needed::Reboot | Needed::Start, Some(operation)) => {
            Action::Finish(past_tense(operation))
        }
        (Needed::Rebuild { .. }, Some(CloudOperation::Rebuild)) if seen.begun.is_some() => {
            failed_build(request, instance)
        }
        (Needed::Rebuild { image }, _) => Action::Rebuild { image },
        (Needed::Reboot, None) => Action::Reboot,
        (Needed::Start, None) => Action::Start,
    }
}

/// What would make the instance as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Needed {
    Nothing,
    Rebuild {
        image: String,
    },
    Reboot,
    Start,
    /// The cloud is at work on it.
    Time,
}

/// `to_boot`: a reboot was asked for, and has not been seen since.
fn needed(instance: &Instance, target: Option<&str>, to_boot: bool) -> Needed {
    let image = image_of(instance);
    let other_image = target.filter(|target| image != Some(*target));
    let rebuild = |image: &str| Needed::Rebuild { image: image.to_string() };
    match (&instance.status, other_image) {
        (
            InstanceStatus::Building
            | InstanceStatus::Rebuilding
            | InstanceStatus::Held { .. }
            | InstanceStatus::Deleting,
            _,
        ) => Needed::Time,
        (_, Some(target)) => rebuild(target),
        // An instance that the cloud left broken gets a fresh root.
        (InstanceStatus::Error { .. }, None) => image.map_or(Needed::Reboot, rebuild),
        (InstanceStatus::Stopped, None) => Needed::Start,
        (InstanceStatus::Active, None) if to_boot => Needed::Reboot,
        (InstanceStatus::Active, None) => Needed::Nothing,
    }
}

/// The cloud accepted the rebuild, and the instance still needs one.
fn failed_build(request: &Request, instance: &Instance) -> Action {
    let problem = match &instance.status {
        InstanceStatus::Error { reason } => format!("the cloud could not rebuild the instance: {reason}"),
        _ => "the instance does not have the image it was rebuilt to".into(),
    };
    if request.attempts < BUILDS {
        Action::Retry(problem)
    } else {
        Action::Fail(format!("{problem} (tried {BUILDS} times)"))
    }
}

fn past_tense(operation: CloudOperation) -> &'static str {
    match operation {
        CloudOperation::Rebuild => "rebuilt",
        CloudOperation::Reboot => "rebooted",
        CloudOperation::Start => "started",
        CloudOperation::Create => "created",
        CloudOperation::Delete => "deleted",
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kiln_cloud::testing;
    use kiln_slurm::Node;

    use super::*;
    use crate::reboot::observe::booted_since;
    use crate::store::RequestState;

    fn instance(status: InstanceStatus, image: Option<&str>) -> Instance {
        Instance { status, image: image.map(String::from), ..testing::instance("n-0") }
    }

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    #[test]
    fn every_row_of_the_table() {
        use InstanceStatus::{Active, Building, Deleting, Error, Rebuilding, Stopped};
        let broken = || Error { reason: "no host".into() };
        let to = |image: &str| Needed::Rebuild { image: image.into() };
        // status, image; target, to boot; step
        let rows = [
            (Active, Some("old"), Some("new"), true, to("new")),
            (Active, Some("old"), Some("new"), false, to("new")),
            (Active, Some("new"), Some("new"), true, Needed::Reboot),
            (Active, Some("new"), Some("new"), false, Needed::Nothing),
            (Active, Some("old"), None, true, Needed::Reboot),
            (Active, None, None, true, Needed::Reboot),
            (Active, None, Some("new"), true, to("new")),
            (Stopped, Some("new"), Some("new"), true, Needed::Start),
            (Stopped, Some("old"), Some("new"), true, to("new")),
            (broken(), Some("new"), Some("new"), true, to("new")),
            (broken(), Some("old"), None, true, to("old")),
            (broken(), None, None, true, Needed::Reboot),
            (Rebuilding, Some("new"), Some("new"), true, Needed::Time),
            (Building, Some("old"), Some("new"), true, Needed::Time),
            (Deleting, Some("old"), Some("new"), true, Needed::Time),
        ];
        for (status, image, target, to_boot, step) in rows {
            let instance = instance(status, image);
            assert_eq!(needed(&instance, target, to_boot), step, "{instance:?} {target:?} {to_boot}");
        }
    }

    /// Whatever the cloud's clock shows: it may be an hour ahead, and the instance of last week look younger than the request.
    #[test]
    fn slurm_says_whether_a_node_has_booted() {
        let mut ahead = instance(InstanceStatus::Active, Some("new"));
        ahead.built = Some(second(3600));
        let reboot = request(RequestKind::Reboot, 1);
        let planned = |booted: Option<i64>| {
            let node = Node { booted: booted.map(second), ..Node::default() };
            let booted_since = booted_since(&reboot, Some(&node));
            let seen = Observation {
                instance: Some(ahead.clone()),
                begun: None,
                done_before: None,
                booted_since,
                elapsed: Duration::ZERO,
            };
            plan(&reboot, Some("new"), &seen)
        };
        assert_eq!([planned(None), planned(Some(5))], [Action::Reboot, Action::Reboot]);
        assert_eq!(planned(Some(15)), Action::Finish("nothing to do: booted since the request"));
    }

    #[test]
    fn the_label_counts_where_the_cloud_shows_no_image() {
        let mut silent = instance(InstanceStatus::Active, None);
        silent.labels.insert(kiln_wire::labels::IMAGE.into(), "new".into());
        assert_eq!(needed(&silent, Some("new"), true), Needed::Reboot);
    }

    fn request(kind: RequestKind, attempts: u32) -> Request {
        Request {
            id: 1,
            kind,
            node: "n-0".into(),
            image: None,
            received: second(10),
            state: RequestState::Working,
            attempts,
            error: None,
            next_try: second(10),
            operation: None,
            began: None,
            built_before: None,
            finished: None,
            jobs: None,
        }
    }

    #[test]
    fn what_was_done_is_not_done_twice() {
        use CloudOperation::{Reboot, Rebuild};
        use InstanceStatus::{Active, Error, Held, Rebuilding};
        use RequestKind as Kind;
        let broken = || Error { reason: "no host".into() };
        let held = || Held { how: "paused".into() };
        let aside = "somebody has set its instance aside: it is paused".to_string();
        let to = |image: &str| Action::Rebuild { image: image.into() };
        let failed = "the cloud could not rebuild the instance: no host";
        let last = format!("{failed} (tried 3 times)");
        // kind, attempts; status, image; begun, done before; action
        let rows = [
            (Kind::Reboot, 1, Active, "new", None, None, Action::Reboot),
            (Kind::Reboot, 1, Active, "new", Some(Reboot), None, Action::Finish("rebooted")),
            (Kind::Reboot, 2, Active, "new", None, Some(Rebuild), Action::Finish("rebuilt")),
            (Kind::Reboot, 1, Active, "old", None, None, to("new")),
            // A new target since the earlier attempt.
            (Kind::Reboot, 2, Active, "old", None, Some(Rebuild), to("new")),
            (Kind::Reboot, 1, Rebuilding, "new", Some(Rebuild), None, Action::Wait),
            (Kind::Reboot, 1, broken(), "new", Some(Rebuild), None, Action::Retry(failed.into())),
            (Kind::Reboot, 3, broken(), "new", Some(Rebuild), None, Action::Fail(last)),
            // A fresh root of the same image.
            (Kind::Rebuild, 1, Active, "new", None, None, to("new")),
            (Kind::Rebuild, 1, Active, "new", Some(Rebuild), None, Action::Finish("rebuilt")),
            // Not Kiln's to start, or to build over.
            (Kind::Reboot, 1, held(), "new", None, None, Action::Fail(aside.clone())),
            (Kind::Rebuild, 1, held(), "old", None, None, Action::Fail(aside)),
        ];
        for (kind, attempts, status, image, begun, done_before, action) in rows {
            let instance = Some(instance(status, Some(image)));
            let seen =
                Observation { instance, begun, done_before, booted_since: false, elapsed: Duration::ZERO };
            assert_eq!(plan(&request(kind, attempts), Some("new"), &seen), action, "{:?}", seen.instance);
        }
    }

    #[test]
    fn a_node_without_an_instance_and_an_endless_build_fail() {
        let seen = |instance| Observation {
            instance,
            begun: None,
            done_before: None,
            booted_since: false,
            elapsed: LONGEST_BUILD + Duration::from_secs(1),
        };
        let reboot = request(RequestKind::Reboot, 1);
        let building = instance(InstanceStatus::Rebuilding, Some("new"));
        for observation in [seen(None), seen(Some(building))] {
            assert!(matches!(plan(&reboot, Some("new"), &observation), Action::Fail(_)));
        }
    }
}
