//! The one convergent operation on a node, as a decision: what was observed and what is wanted give the step.

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus};

pub use kiln_cloud::label::IMAGE as IMAGE_LABEL;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is no instance.
    Create,
    Rebuild {
        image: String,
    },
    Reboot,
    Start,
    Nothing,
    /// The cloud is at work on it; look again.
    Wait,
}

/// `reboot_asked`: when a reboot was asked for, if it was. An instance that was built since then has had it.
pub fn decide(instance: Option<&Instance>, target: Option<&str>, reboot_asked: Option<Timestamp>) -> Step {
    let Some(instance) = instance else {
        return Step::Create;
    };
    let image = image_of(instance);
    let other_image = target.filter(|target| image != Some(*target));
    let rebuild = |image: &str| Step::Rebuild { image: image.to_string() };
    match (&instance.status, other_image) {
        (InstanceStatus::Building | InstanceStatus::Rebuilding | InstanceStatus::Deleting, _) => Step::Wait,
        (_, Some(target)) => rebuild(target),
        // What the cloud left broken gets a fresh root.
        (InstanceStatus::Error { .. }, None) => image.map_or(Step::Reboot, rebuild),
        (InstanceStatus::Stopped, None) => Step::Start,
        (InstanceStatus::Active, None) => match reboot_asked {
            Some(asked) if instance.built.is_none_or(|built| built < asked) => Step::Reboot,
            _ => Step::Nothing,
        },
    }
}

/// As the cloud says, or else as Kiln noted.
pub fn image_of(instance: &Instance) -> Option<&str> {
    instance.image.as_deref().or_else(|| instance.labels.get(IMAGE_LABEL).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(status: InstanceStatus, image: Option<&str>, built: Option<i64>) -> Instance {
        Instance {
            id: "1".into(),
            name: "n-0".into(),
            status,
            image: image.map(String::from),
            flavor: "f".into(),
            address: None,
            public_address: None,
            labels: kiln_cloud::Labels::new(),
            volumes: vec![],
            created: Timestamp::UNIX_EPOCH,
            built: built.map(second),
        }
    }

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    #[test]
    fn every_row_of_the_table() {
        use InstanceStatus::{Active, Building, Deleting, Error, Rebuilding, Stopped};
        let broken = || Error { reason: "no host".into() };
        let to = |image: &str| Step::Rebuild { image: image.into() };
        // status, image, built; target, reboot asked at; step
        let rows = [
            (Active, Some("old"), Some(5), Some("new"), Some(10), to("new")),
            (Active, Some("old"), Some(15), Some("new"), Some(10), to("new")),
            (Active, Some("old"), Some(5), Some("new"), None, to("new")),
            (Active, Some("new"), Some(5), Some("new"), Some(10), Step::Reboot),
            (Active, Some("new"), None, Some("new"), Some(10), Step::Reboot),
            (Active, Some("new"), Some(15), Some("new"), Some(10), Step::Nothing),
            (Active, Some("new"), Some(5), Some("new"), None, Step::Nothing),
            (Active, Some("old"), Some(5), None, Some(10), Step::Reboot),
            (Active, None, Some(5), None, Some(10), Step::Reboot),
            (Active, None, Some(5), Some("new"), Some(10), to("new")),
            (Stopped, Some("new"), Some(5), Some("new"), Some(10), Step::Start),
            (Stopped, Some("old"), Some(5), Some("new"), Some(10), to("new")),
            (broken(), Some("new"), None, Some("new"), Some(10), to("new")),
            (broken(), Some("old"), None, None, Some(10), to("old")),
            (broken(), None, None, None, Some(10), Step::Reboot),
            (Rebuilding, Some("new"), None, Some("new"), Some(10), Step::Wait),
            (Building, Some("old"), None, Some("new"), Some(10), Step::Wait),
            (Deleting, Some("old"), None, Some("new"), Some(10), Step::Wait),
        ];
        for (status, image, built, target, asked, step) in rows {
            let instance = instance(status, image, built);
            let decided = decide(Some(&instance), target, asked.map(second));
            assert_eq!(decided, step, "{instance:?} {target:?} {asked:?}");
        }
        assert_eq!(decide(None, Some("new"), None), Step::Create);
    }

    #[test]
    fn where_the_cloud_is_silent_the_label_speaks() {
        let mut silent = instance(InstanceStatus::Active, None, Some(5));
        silent.labels.insert(IMAGE_LABEL.into(), "new".into());
        assert_eq!(decide(Some(&silent), Some("new"), Some(second(10))), Step::Reboot);
    }
}
