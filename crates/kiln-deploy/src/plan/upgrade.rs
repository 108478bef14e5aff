//! The control node gets a newer release of Slurm, which takes over what the present one has written, or a step to one is
//! half done.

use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::Release;
use kiln_spec::{Role, Spec, Volume};
use serde::Serialize;

use super::action::{Action, Instances, NewNode, RebuiltNode};
use super::node::{Inputs, new_node, rebuilt_node};
use super::{Plan, releases};
use crate::observe::Observed;
use crate::targets::Targets;
use crate::upgrade::{Open, Phase};

/// Where a step to another release begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Begins {
    AtTheStart,
    /// An earlier run has rebuilt the control node and was cut off.
    HalfDone,
    /// An earlier run has failed, and was cut off on its way back.
    FailedBefore,
    /// It is half done, and the file wants the old release again.
    OldWanted,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlUpgrade {
    pub begins: Begins,
    pub from: Release,
    pub to: Option<Release>,
    /// Names of the images.
    pub from_image: String,
    pub to_image: String,
    /// Id of the image to go back to.
    pub old_image: String,
    /// The control node is gone or broken: a new one is created with the old image first.
    pub lost: bool,
    #[serde(skip)]
    pub open: Option<Open>,
    /// The control node as it is rebuilt: with the new image, or on the way back with the old one.
    #[serde(flatten)]
    pub instances: Instances<RebuiltNode>,
}

/// `plan` with the control node's rebuild in this way, where its Slurm changes.
pub fn with_upgrade(mut plan: Plan, spec: &Spec, observed: &Observed, targets: &Targets) -> Plan {
    let Some((upgrade, created)) = upgrade(spec, observed, targets) else { return plan };
    for action in &mut plan.actions {
        if let Action::CreateInstances { group, image, instances } = action
            && group == "control"
            && let Some(created) = &created
        {
            image.clone_from(&upgrade.from_image);
            *instances = Instances(vec![created.clone()]);
        }
    }
    let is_rebuild =
        |action: &Action| matches!(action, Action::RebuildInstances { group, .. } if group == "control");
    let at = plan.actions.iter().position(is_rebuild);
    plan.actions.retain(|action| !is_rebuild(action));
    plan.actions.insert(at.unwrap_or(plan.actions.len()), Action::UpgradeControl(Box::new(upgrade)));
    plan
}

/// The step, and the control node as it is created for it, where there is none.
fn upgrade(spec: &Spec, observed: &Observed, targets: &Targets) -> Option<(ControlUpgrade, Option<NewNode>)> {
    // Without a volume for it the state goes with the root disk anyway.
    if spec.volumes.state == Volume::None {
        return None;
    }
    let control = spec.nodes().find(|node| node.role == Role::Control)?;
    let instance = well(observed, control.name);
    let lost = instance.is_none();
    let (present, future) = (releases::of_control(spec, observed), releases::future(spec, observed, targets));
    let open = Open::of(spec, observed);
    let (begins, from, to, old_image) = if let Some(open) = &open {
        let from = open.release()?;
        let is_back = instance.is_some_and(|i| i.image.as_ref() == Some(&open.image));
        let begins = if future.is_some_and(|future| future.has_major_of(from)) {
            Begins::OldWanted
        } else if open.phase == Phase::Back || lost {
            Begins::FailedBefore
        } else if is_back {
            Begins::AtTheStart
        } else {
            Begins::HalfDone
        };
        let newer = [future, present].into_iter().flatten().filter(|release| !release.has_major_of(from));
        (begins, from, newer.max(), open.image.clone())
    } else {
        let (present, future) = (present?, future?);
        if future.has_major_of(present) {
            return None;
        }
        (Begins::AtTheStart, present, Some(future), instance?.image.clone()?)
    };
    let mut targets = targets.clone();
    if matches!(begins, Begins::FailedBefore | Begins::OldWanted) {
        targets.insert(control.image.to_string(), Some(old_image.clone()));
    }
    let to_image = targets.get(control.image).and_then(Option::as_deref).unwrap_or(control.image);
    let to_image = observed.image_name(to_image);
    let inputs = Inputs::new(spec, observed, &targets);
    let id = instance.map(|instance| instance.id.as_str()).unwrap_or_default();
    let instances = Instances(vec![rebuilt_node(&inputs, &control, id)]);
    let created = lost.then(|| new_node(&inputs, &control));
    let from_image = observed.image_name(&old_image);
    Some((
        ControlUpgrade { begins, from, to, from_image, to_image, old_image, lost, open, instances },
        created,
    ))
}

/// The node's instance, if it is not broken: a broken one is recreated.
pub fn well<'a>(observed: &'a Observed, node: &str) -> Option<&'a Instance> {
    let instance = observed.nodes().get(node).copied()?;
    (!matches!(instance.status, InstanceStatus::Error { .. })).then_some(instance)
}

/// Whether `future` is the release before a step that is half done: its data was kept, so that it can come back.
pub fn is_way_back(spec: &Spec, observed: &Observed, future: Release) -> bool {
    Open::of(spec, observed).and_then(|open| open.release()).is_some_and(|old| old.has_major_of(future))
}

impl std::fmt::Display for ControlUpgrade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { from, from_image, to_image, .. } = self;
        let control = self.instances.nodes().next().unwrap_or("control").to_string();
        let to = self.to.map_or_else(|| "a newer release".to_string(), |to| to.to_string());
        match self.begins {
            Begins::AtTheStart => write!(
                f,
                "~ control: upgrade Slurm {from} -> {to}: make a backup, stop Slurm, rebuild {control} in place, \
                 {from_image} -> {to_image}, convert, compare queue and accounts; if that fails, put image and backup back"
            ),
            Begins::HalfDone => write!(
                f,
                "~ control: upgrade Slurm {from} -> {to}, half done: go on with {to_image}, convert, compare queue and accounts; \
                 if that fails, put image {from_image} and the backup back"
            ),
            _ if self.lost => write!(
                f,
                "~ control: upgrade Slurm {from} -> {to}, half done when {control} was lost: go back to Slurm {from} on the \
                 new {control}, put the backup back"
            ),
            Begins::FailedBefore | Begins::OldWanted => write!(
                f,
                "~ control: upgrade Slurm {from} -> {to}, half done: go back to Slurm {from}, rebuild {control} in place with \
                 {from_image}, put the backup back"
            ),
        }
    }
}
