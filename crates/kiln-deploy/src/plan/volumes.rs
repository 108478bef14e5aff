//! The cluster's volumes.

use kiln_cloud::VolumeStatus;
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

/// A volume in error is recreated, so its id is not the one that counts.
pub fn volume_id(observed: &Observed, name: String) -> Ref<String> {
    let own = observed.volumes.iter().find(|v| v.name == name && v.status != VolumeStatus::Error);
    match own.or_else(|| observed.attached.get(&name)) {
        Some(volume) => Ref::Known(volume.id.clone()),
        None => Ref::Made(Resource::Volume(name)),
    }
}
