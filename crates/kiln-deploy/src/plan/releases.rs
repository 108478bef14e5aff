//! Slurm's rules for releases: the control node is never older than what talks to it, never too far ahead of it, and reads
//! only what a release within its reach has written. A plan that would break them is refused before anything is touched.

use kiln_image::{Manifest, Recipe};
use kiln_slurm::Release;
use kiln_spec::{Node, Role, Spec};
use kiln_wire::labels;

use super::node::group_label;
use super::upgrade::{is_way_back, well};
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::targets::Targets;
use crate::upgrade::Open;

pub fn check(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<()> {
    let Some(control) = spec.nodes().find(|node| node.role == Role::Control) else { return Ok(()) };
    let present = of_control(spec, observed);
    observed.accounts.check_place(spec)?;
    // What is not known is not judged: an image that was not made by Kiln, a node that does not answer.
    let Some(future) = target(spec, &control, observed, targets).or(present) else { return Ok(()) };
    if let Some(present) = present
        && !future.can_convert(present)
        && !is_way_back(spec, observed, future)
    {
        let node = control.name.to_string();
        return Err(Error::SlurmConversion { node, present, future });
    }
    if let Some(present) = present {
        observed.accounts.check_release(spec, present, future)?;
    }
    // A step needs the old Slurm: it makes the backup, and is what can be gone back to.
    if let Some(present) = present
        && !future.has_major_of(present)
        && observed.state_volume(spec).is_some()
        && well(observed, control.name).is_none()
        && Open::of(spec, observed).is_none()
    {
        let node = control.name.to_string();
        return Err(Error::UpgradeWithoutControl { node, present, future });
    }
    for node in spec.nodes().filter(|node| node.role != Role::Control) {
        let target = target(spec, &node, observed, targets);
        // A node that is rebuilt at once has its new image by the time that it talks to slurmctld again.
        let stays =
            (node.image_update == kiln_spec::ImageUpdate::Slurm).then(|| self::present(&node, observed));
        let refused = |release: &Release| !future.can_serve(*release);
        if let Some(release) = [target, stays.flatten()].into_iter().flatten().find(refused) {
            return Err(Error::SlurmDistance { group: group_label(&node), release, control: future });
        }
    }
    Ok(())
}

/// That the Slurm which the control node runs now works with the images that these nodes get, given by id.
pub fn check_rollout(spec: &Spec, observed: &Observed, wanted: &[(&str, &str)]) -> Result<()> {
    let Some(control) = of_control(spec, observed) else { return Ok(()) };
    for (name, id) in wanted {
        let image = observed.images.iter().find(|image| image.id == *id);
        let release = image.and_then(Manifest::of).and_then(|manifest| manifest.slurm());
        if let Some(release) = release.filter(|release| !control.can_serve(*release)) {
            let node = spec.nodes().find(|node| node.name == *name);
            let group = node.map_or_else(|| (*name).to_string(), |node| group_label(&node));
            return Err(Error::SlurmDistance { group, release, control });
        }
    }
    Ok(())
}

/// As [`check`], where Slurm starts empty: only what nodes are to run has to fit together.
pub fn check_together(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<()> {
    let Some(future) = future(spec, observed, targets) else { return Ok(()) };
    let others = spec.nodes().filter(|node| node.role != Role::Control);
    for (node, release) in others.filter_map(|n| target(spec, &n, observed, targets).map(|r| (n, r))) {
        if !future.can_serve(release) {
            return Err(Error::SlurmDistance { group: group_label(&node), release, control: future });
        }
    }
    Ok(())
}

/// What the control node runs now. Of one that is gone the volume of its state still tells.
pub fn of_control(spec: &Spec, observed: &Observed) -> Option<Release> {
    let control = spec.nodes().find(|node| node.role == Role::Control)?;
    let noted = || observed.state_volume(spec)?.labels.get(labels::SLURM)?.parse().ok();
    present(&control, observed).or_else(noted)
}

/// What the control node is to run.
pub fn future(spec: &Spec, observed: &Observed, targets: &Targets) -> Option<Release> {
    let control = spec.nodes().find(|node| node.role == Role::Control)?;
    target(spec, &control, observed, targets)
}

/// Whether the file wants an image whose Slurm is known: only then does it matter which one the control node runs.
pub fn are_known(spec: &Spec, observed: &Observed, targets: &Targets) -> bool {
    spec.nodes().any(|node| target(spec, &node, observed, targets).is_some())
}

/// What the node runs now.
fn present(node: &Node<'_>, observed: &Observed) -> Option<Release> {
    let instance = observed.nodes().get(node.name).copied()?;
    let image = observed.images.iter().find(|image| Some(&image.id) == instance.image.as_ref());
    let of_image = image.and_then(Manifest::of).and_then(|manifest| manifest.slurm());
    of_image.or_else(|| observed.releases.get(node.name).copied())
}

/// What the image that the file gives to the node has. One that is not built yet gets what its system brings.
fn target(spec: &Spec, node: &Node<'_>, observed: &Observed, targets: &Targets) -> Option<Release> {
    let id = targets.get(node.image).and_then(Option::as_ref);
    let built = id.and_then(|id| observed.images.iter().find(|image| image.id == *id));
    match built {
        Some(image) => Manifest::of(image)?.slurm(),
        None => Recipe::of(spec, node.image)?.slurm(),
    }
}
