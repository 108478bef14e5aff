//! What a request to reboot or rebuild a node needs next. Pure: the request, the target and what was observed give the action.

use std::time::Duration;

use jiff::Timestamp;
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
    let asked = (request.kind == RequestKind::Reboot).then_some(request.received);
    let done = seen.begun.or(seen.done_before);
    let needed = match (needed(instance, target, asked), target) {
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
        (Needed::Nothing, None) => Action::Finish("nothing to do: built since the request"),
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

/// `reboot_asked`: when a reboot was asked for, if it was. An instance that was built since then has had it.
fn needed(instance: &Instance, target: Option<&str>, reboot_asked: Option<Timestamp>) -> Needed {
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
        (InstanceStatus::Active, None) => match reboot_asked {
            Some(asked) if instance.built.is_none_or(|built| built < asked) => Needed::Reboot,
            _ => Needed::Nothing,
        },
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
    use super::*;
    use crate::store::RequestState;
    use kiln_cloud::testing;

    fn instance(status: InstanceStatus, image: Option<&str>, built: Option<i64>) -> Instance {
        let (image, built) = (image.map(String::from), built.map(second));
        Instance { status, image, built, ..testing::instance("n-0") }
    }

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    #[test]
    fn every_row_of_the_table() {
        use InstanceStatus::{Active, Building, Deleting, Error, Rebuilding, Stopped};
        let broken = || Error { reason: "no host".into() };
        let to = |image: &str| Needed::Rebuild { image: image.into() };
        // status, image, built; target, reboot asked at; step
        let rows = [
            (Active, Some("old"), Some(5), Some("new"), Some(10), to("new")),
            (Active, Some("old"), Some(15), Some("new"), Some(10), to("new")),
            (Active, Some("old"), Some(5), Some("new"), None, to("new")),
            (Active, Some("new"), Some(5), Some("new"), Some(10), Needed::Reboot),
            (Active, Some("new"), None, Some("new"), Some(10), Needed::Reboot),
            (Active, Some("new"), Some(15), Some("new"), Some(10), Needed::Nothing),
            (Active, Some("new"), Some(5), Some("new"), None, Needed::Nothing),
            (Active, Some("old"), Some(5), None, Some(10), Needed::Reboot),
            (Active, None, Some(5), None, Some(10), Needed::Reboot),
            (Active, None, Some(5), Some("new"), Some(10), to("new")),
            (Stopped, Some("new"), Some(5), Some("new"), Some(10), Needed::Start),
            (Stopped, Some("old"), Some(5), Some("new"), Some(10), to("new")),
            (broken(), Some("new"), None, Some("new"), Some(10), to("new")),
            (broken(), Some("old"), None, None, Some(10), to("old")),
            (broken(), None, None, None, Some(10), Needed::Reboot),
            (Rebuilding, Some("new"), None, Some("new"), Some(10), Needed::Time),
            (Building, Some("old"), None, Some("new"), Some(10), Needed::Time),
            (Deleting, Some("old"), None, Some("new"), Some(10), Needed::Time),
        ];
        for (status, image, built, target, asked, step) in rows {
            let instance = instance(status, image, built);
            let found = needed(&instance, target, asked.map(second));
            assert_eq!(found, step, "{instance:?} {target:?} {asked:?}");
        }
    }

    #[test]
    fn the_label_counts_where_the_cloud_shows_no_image() {
        let mut silent = instance(InstanceStatus::Active, None, Some(5));
        silent.labels.insert(kiln_wire::labels::IMAGE.into(), "new".into());
        assert_eq!(needed(&silent, Some("new"), Some(second(10))), Needed::Reboot);
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
            let instance = Some(instance(status, Some(image), Some(5)));
            let seen = Observation { instance, begun, done_before, elapsed: Duration::ZERO };
            assert_eq!(plan(&request(kind, attempts), Some("new"), &seen), action, "{:?}", seen.instance);
        }
    }

    #[test]
    fn a_node_without_an_instance_and_an_endless_build_fail() {
        let seen = |instance| Observation {
            instance,
            begun: None,
            done_before: None,
            elapsed: LONGEST_BUILD + Duration::from_secs(1),
        };
        let reboot = request(RequestKind::Reboot, 1);
        let building = instance(InstanceStatus::Rebuilding, Some("new"), None);
        for observation in [seen(None), seen(Some(building))] {
            assert!(matches!(plan(&reboot, Some("new"), &observation), Action::Fail(_)));
        }
    }
}
