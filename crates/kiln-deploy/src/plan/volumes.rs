//! The cluster's volumes.

use kiln_cloud::{Volume, VolumeStatus};
use kiln_site::{Purpose, volume_name};
use kiln_spec::Spec;

use super::action::Action;
use super::reference::{Ref, Resource};
use crate::observe::Observed;

pub fn volumes(spec: &Spec, observed: &Observed) -> Vec<Action> {
    Purpose::ALL
        .into_iter()
        .filter_map(|purpose| Some((volume_name(spec, purpose), purpose.size_gib(spec)?)))
        .filter_map(|(name, size_gib)| {
            let status = observed.volumes.iter().find(|v| v.name == name).map(|v| v.status);
            let usable = status == Some(VolumeStatus::Usable);
            (!usable).then_some(Action::CreateVolume { name, size_gib, status })
        })
        .collect()
}

/// Those that the file has made larger. What the share needs is Kiln's own affair.
pub fn grown(spec: &Spec, observed: &Observed) -> Vec<Action> {
    let sizes = sizes(spec, observed);
    let larger = sizes.filter(|(there, size_gib)| there.size_gib < *size_gib);
    let grow = |(there, size_gib): (&Volume, u64)| Action::GrowVolume {
        name: there.name.clone(),
        id: there.id.clone(),
        from_gib: there.size_gib,
        size_gib,
    };
    larger.map(grow).collect()
}

/// Volumes that can be used, each with the size that the file gives it.
pub fn sizes<'o>(spec: &Spec, observed: &'o Observed) -> impl Iterator<Item = (&'o Volume, u64)> {
    let written: Vec<(String, u64)> = [Purpose::State, Purpose::Home, Purpose::Backup]
        .into_iter()
        .filter_map(|purpose| Some((volume_name(spec, purpose), purpose.size_gib(spec)?)))
        .collect();
    let usable = observed.volumes.iter().filter(|volume| volume.status == VolumeStatus::Usable);
    usable.filter_map(move |volume| {
        let (_, size_gib) = written.iter().find(|(name, _)| *name == volume.name)?;
        Some((volume, *size_gib))
    })
}

/// A volume in error is recreated, so its id is not the one that counts.
pub fn volume_id(observed: &Observed, name: String) -> Ref<String> {
    let own = observed.volumes.iter().find(|v| v.name == name && v.status != VolumeStatus::Error);
    match own.or_else(|| observed.attached.get(&name)) {
        Some(volume) => Ref::Known(volume.id.clone()),
        None => Ref::Made(Resource::Volume(name)),
    }
}
