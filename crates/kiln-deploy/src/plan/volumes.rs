//! The cluster's volumes.

use kiln_cloud::{Volume, VolumeStatus};
use kiln_site::{Purpose, on_file_storage, volume_name};
use kiln_spec::Spec;

use super::action::{Action, PlannedExport};
use super::network::{cluster_group, control_address, network_id, security_group_id, subnet};
use super::node::control_at;
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

const ON_FILE_STORAGE: [Purpose; 2] = [Purpose::Home, Purpose::Share];

/// Those that the cloud serves.
fn file_systems(spec: &Spec) -> impl Iterator<Item = (Purpose, String)> {
    let own = ON_FILE_STORAGE.into_iter().filter(|purpose| on_file_storage(spec, *purpose));
    own.map(|purpose| (purpose, volume_name(spec, purpose)))
}

pub fn new_file_systems(spec: &Spec, observed: &Observed) -> Vec<Action> {
    file_systems(spec)
        .filter_map(|(_, name)| {
            let there = observed.volumes.iter().find(|volume| volume.name == name);
            let usable = there.is_some_and(|volume| volume.status == VolumeStatus::Usable);
            (!usable).then_some(Action::CreateFileSystem { there: there.is_some(), name })
        })
        .collect()
}

/// When some are not exported yet, or not to the control node at its address.
pub fn exports(spec: &Spec, observed: &Observed) -> Option<Action> {
    let wanted: Vec<(Purpose, String)> = file_systems(spec).collect();
    let control = control_at(spec, observed);
    let address = control.clone().known().or_else(|| control_address(spec, observed));
    let is_done = |(_, name): &(Purpose, String)| {
        let served = observed.volumes.iter().find(|v| v.name == *name).and_then(|v| v.served.as_ref());
        served.is_some_and(|served| served.at.is_some() && served.root.is_some() && served.root == address)
    };
    let export = |(purpose, name): &(Purpose, String)| PlannedExport {
        name: name.clone(),
        id: volume_id(observed, name.clone()),
        read_only: *purpose == Purpose::Share,
    };
    (!wanted.iter().all(is_done)).then(|| Action::ExportFileSystems {
        network: network_id(spec, observed),
        // Everything between members of that group is allowed.
        security_groups: vec![security_group_id(observed, cluster_group(spec))],
        subnet: subnet(spec, observed),
        control,
        file_systems: wanted.iter().map(export).collect(),
    })
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
