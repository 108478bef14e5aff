//! Another release of Slurm on the control node.

use super::images::image;
use super::*;
use crate::upgrade::{Open, Phase};

/// A step that Slurm allows: by its own action, with a way back, and continued where it was cut off.
#[test]
fn another_slurm_on_control_is_a_step_with_a_way_back() {
    let spec = spec(FILE);
    let images = [("old", "24.11.5-4"), ("new", "26.05.5-1")].map(|(id, slurm)| image(id, slurm)).to_vec();
    let mut observed = Observed { images, ..whole(&spec) };
    let upgrade = |observed: &Observed, target: &str| {
        let plan = plan(&spec, observed, &built(target)).unwrap_or_else(|error| panic!("{error}"));
        let found = plan.actions.iter().find_map(|action| match action {
            Action::UpgradeControl(upgrade) => Some((upgrade.begins, upgrade.to_string())),
            _ => None,
        });
        assert!(!lines(&plan).iter().any(|line| line.starts_with("~ control: rebuild")), "{plan}");
        found
    };
    let (begins, text) = upgrade(&observed, "new").expect("an upgrade");
    assert_eq!(begins, Begins::AtTheStart);
    assert_eq!(
        text,
        "~ control: upgrade Slurm 24.11.5 -> 26.05.5: make a backup, stop Slurm, rebuild control in place, old -> new, \
         convert, compare queue and accounts; if that fails, put image and backup back"
    );
    assert!(plan(&spec, &observed, &built("new")).unwrap().is_destructive());
    assert_eq!(upgrade(&observed, "old"), None);

    let directory = "/var/lib/state/upgrades/20261116-050606-slurm-24.11.5".to_string();
    let mut open = |phase, image: &str| {
        let open = Open { phase, directory: directory.clone(), image: "old".into() };
        let control = observed.instances.iter_mut().find(|i| i.name == "control").expect("control");
        control.image = Some(image.into());
        let state = observed.volumes.iter_mut().find(|v| v.name == "demo-state").expect("the state's volume");
        state.labels.extend(open.label());
        observed.clone()
    };
    let begins = |observed: &Observed, target: &str| upgrade(observed, target).expect("an upgrade").0;
    assert_eq!(begins(&open(Phase::Going, "new"), "new"), Begins::HalfDone);
    assert_eq!(begins(&open(Phase::Going, "new"), "old"), Begins::OldWanted, "which Slurm alone could not");
    assert_eq!(begins(&open(Phase::Going, "old"), "new"), Begins::AtTheStart);
    assert_eq!(begins(&open(Phase::Back, "new"), "new"), Begins::FailedBefore);
    assert_eq!(begins(&open(Phase::Back, "old"), "new"), Begins::FailedBefore);
    let (_, text) = upgrade(&open(Phase::Back, "new"), "new").expect("an upgrade");
    assert!(text.contains("half done: go back to Slurm 24.11.5") && text.contains("with old"), "{text}");
}

/// The data is half converted: a new control node has the old image, and the backup is put back, whatever the file wants.
#[test]
fn a_control_node_that_is_lost_during_a_step_goes_back() {
    let spec = spec(FILE);
    let images = [("old", "24.11.5-4"), ("new", "26.05.5-1")].map(|(id, slurm)| image(id, slurm)).to_vec();
    let directory = "/var/lib/state/upgrades/20261116-050606-slurm-24.11.5".to_string();
    let open = Open { phase: Phase::Going, directory, image: "old".into() };
    let mut missing = Observed { images, ..whole(&spec) };
    let state = missing.volumes.iter_mut().find(|v| v.name == "demo-state").expect("the state's volume");
    state.labels.extend(open.label());
    let mut broken = missing.clone();
    missing.instances.retain(|instance| instance.name != "control");
    let control = broken.instances.iter_mut().find(|i| i.name == "control").expect("control");
    control.status = InstanceStatus::Error { reason: "No valid host".into() };
    control.image = Some("new".into());
    for observed in [&missing, &broken] {
        for (target, begins) in [("new", Begins::FailedBefore), ("old", Begins::OldWanted)] {
            let plan = plan(&spec, observed, &built(target)).unwrap_or_else(|error| panic!("{error}"));
            let created = creations(&plan);
            let control = created.iter().find(|new| new.node == "control").expect("a new control node");
            assert_eq!(control.image_id, Ref::Known("old".into()), "{plan}");
            let step = plan.actions.iter().find_map(|action| match action {
                Action::UpgradeControl(upgrade) => Some(upgrade),
                _ => None,
            });
            let step = step.unwrap_or_else(|| panic!("a plain creation: {plan}"));
            assert!(step.lost && step.begins == begins, "{step:?}");
            assert_eq!(step.open.as_ref(), Some(&open));
        }
    }
}

/// A new control node would put its Slurm on data of another one, without backup or way back.
#[test]
fn a_lost_control_node_gets_the_slurm_of_its_data() {
    let spec = spec(FILE);
    let images = [("older", "22.05.8-4"), ("old", "24.11.5-4"), ("new", "26.05.5-1")];
    let mut missing =
        Observed { images: images.map(|(id, slurm)| image(id, slurm)).to_vec(), ..whole(&spec) };
    missing.instances.clear();
    let state = missing.volumes.iter_mut().find(|v| v.name == "demo-state").expect("the state's volume");
    state.labels.insert(labels::SLURM.into(), "24.11.5".into());
    let mut broken = missing.clone();
    broken.instances = whole(&spec).instances;
    broken.instances[0].status = InstanceStatus::Error { reason: "No valid host".into() };
    assert_eq!(broken.instances[0].name, "control");
    for observed in [&missing, &broken] {
        let error = plan(&spec, observed, &built("older")).unwrap_err();
        assert!(matches!(error, Error::SlurmConversion { .. }), "{error}");
        let error = plan(&spec, observed, &built("new")).unwrap_err();
        assert!(matches!(error, Error::UpgradeWithoutControl { .. }), "{error}");
        assert!(error.hint().is_some());
        assert_eq!(creations(&plan(&spec, observed, &built("old")).unwrap())[0].node, "control");
    }
}
