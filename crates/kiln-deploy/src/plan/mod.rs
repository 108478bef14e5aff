//! Desired minus observed: a pure function from the spec and what the cloud has to a complete list of actions.
//! Execution has no choices left: every action holds the ids and values it needs. What only an earlier stage can know,
//! such as the id of a new network, is a [`Ref`] to it.

mod action;
mod checks;
mod families;
mod gpus;
mod instances;
mod network;
mod node;
mod plan_notes;
mod reference;
pub(crate) mod releases;
pub(crate) mod removal;
pub(crate) mod software;
mod text;
mod together;
mod upgrade;
mod volumes;

use kiln_spec::Spec;
use serde::Serialize;

pub use action::{
    Action, ExistingNode, HeldNode, NewNode, PlannedAttachment, PlannedExport, PlannedLabels, PlannedRule,
    RebuiltNode, Stage,
};
pub use network::{cluster_group, login_group};
pub use node::{
    attachments, control_has_backup_volume, exported_share, group_label, security_groups_of, share,
};
pub use reference::{Ref, Resource};
pub use removal::Removal;
pub use software::SoftwareChange;
pub use upgrade::{Begins, ControlUpgrade};

use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::owner;
use crate::slurm_view::JobOnNodes;
use crate::targets::Targets;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub cluster: String,
    pub actions: Vec<Action>,
    /// Differences between file and cloud that no action follows from.
    pub notes: Vec<String>,
    /// What the images that nodes are to get bring, now or later through Slurm.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub software: Vec<SoftwareChange>,
    /// Differences between the file and Slurm's accounts, which `configure` deals with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Nothing can be carried out before every image exists.
    pub fn check_images(&self) -> Result<()> {
        let unbuilt = self.actions.iter().find_map(|action| match action {
            Action::BuildImage { image } => Some(image.clone()),
            _ => None,
        });
        unbuilt.map_or(Ok(()), |image| Err(Error::ImageNotBuilt(image)))
    }

    pub fn is_destructive(&self) -> bool {
        self.actions.iter().any(Action::is_destructive)
    }

    /// Whether instances are rebuilt or deleted.
    pub fn changes_instances(&self) -> bool {
        self.actions.iter().any(|action| action.is_destructive() && action.deleted_volume().is_none())
    }

    /// Nodes that go when their jobs have ended.
    pub fn held(&self) -> Vec<&HeldNode> {
        let held = self.actions.iter().filter_map(|action| match action {
            Action::DrainInstances { instances, .. } => Some(&instances.0),
            _ => None,
        });
        held.flatten().collect()
    }

    /// Ids.
    fn deleted_instances(&self) -> impl Iterator<Item = &str> {
        let deleted = self.actions.iter().filter_map(|action| match action {
            Action::DeleteInstances { instances, .. } => Some(&instances.0),
            _ => None,
        });
        deleted.flatten().map(|node| node.id.as_str())
    }

    /// Jobs that would end with the instances they run on, where that is known.
    pub fn lost_jobs(&self) -> Vec<&JobOnNodes> {
        let lost = self.actions.iter().filter_map(|action| match action {
            Action::DeleteInstances { jobs, .. } => jobs.as_ref(),
            Action::PowerDownInstances { jobs, .. } => Some(jobs),
            _ => None,
        });
        let mut lost: Vec<&JobOnNodes> = lost.flatten().collect();
        lost.sort();
        lost.dedup();
        lost
    }

    /// Whether Slurm is to be told something before the rest can be planned.
    pub fn drains(&self) -> bool {
        self.actions.iter().any(|action| action.stage() == Stage::Drain)
    }

    /// This plan and the one that took up what it had left, as one.
    #[must_use]
    pub fn followed_by(mut self, next: Plan) -> Plan {
        self.actions.retain(|action| action.stage() != Stage::Drain);
        self.actions.extend(next.actions);
        Plan { notes: next.notes, software: next.software, accounts: next.accounts, ..self }
    }

    /// Names of the volumes that would be deleted.
    pub fn deleted_volumes(&self) -> Vec<&str> {
        self.actions.iter().filter_map(Action::deleted_volume).collect()
    }
}

/// What must hold before anything is planned or built.
pub fn check(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<()> {
    checks::check(spec, observed, targets)?;
    families::check(spec, observed)?;
    releases::check(spec, observed, targets)
}

/// `id`: the cluster's, if it has one yet.
pub fn plan(
    spec: &Spec,
    id: Option<&str>,
    observed: &Observed,
    targets: &Targets,
    removal: Removal,
) -> Result<Plan> {
    owner::check(&spec.name, id, observed.listed(&spec.name))?;
    check(spec, observed, targets)?;
    let plan = difference(spec, observed, targets, removal);
    Ok(upgrade::with_upgrade(plan, spec, observed, targets))
}

/// As [`plan`], for a maintenance upgrade: every node gets its image at once, and no Slurm has to understand what an
/// earlier one has written.
pub fn plan_together(spec: &Spec, id: Option<&str>, observed: &Observed, targets: &Targets) -> Result<Plan> {
    owner::check(&spec.name, id, observed.listed(&spec.name))?;
    checks::check(spec, observed, targets)?;
    families::check(spec, observed)?;
    releases::check_together(spec, observed, targets)?;
    Ok(together::all_at_once(
        difference(spec, observed, targets, Removal::AfterJobs),
        spec,
        observed,
        targets,
    ))
}

fn difference(spec: &Spec, observed: &Observed, targets: &Targets, removal: Removal) -> Plan {
    let mut actions: Vec<Action> = Vec::new();
    let unbuilt = targets.iter().filter(|(_, id)| id.is_none());
    actions.extend(unbuilt.map(|(image, _)| Action::BuildImage { image: image.clone() }));
    let mut removals = removal::removals(spec, observed, removal);
    actions.append(&mut removals.actions);
    actions.extend(network::network(spec, observed));
    actions.extend(network::keep_addresses(spec, observed));
    actions.extend(volumes::volumes(spec, observed));
    actions.extend(volumes::new_file_systems(spec, observed));
    actions.extend(volumes::grown(spec, observed));
    let unmarked = observed.unmarked(spec);
    actions.extend((!unmarked.is_empty()).then_some(Action::Adopt { resources: unmarked }));
    actions.extend(network::note_control(spec, observed));
    actions.extend(network::security_groups(spec, observed));
    actions.extend(volumes::exports(spec, observed));
    actions.extend(instances::instances(spec, observed, targets, &removals));
    let notes = plan_notes::plan_notes(spec, observed, targets);
    let software = software::software(spec, observed, targets);
    Plan { cluster: spec.name.clone(), actions, notes, software, accounts: Vec::new() }
}

#[cfg(test)]
mod tests;
