//! What must hold before anything is planned.

use std::net::IpAddr;

use kiln_cloud::VolumeStatus;
use kiln_image::{Recipe, Source};
use kiln_site::{Purpose, on_file_storage, volume_name};
use kiln_spec::{ImageSource, Role, Spec, Volume};

use super::network::control_address;
use super::volumes::sizes;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::targets::Targets;

pub fn check(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<()> {
    check_flavors(spec, observed)?;
    check_attached(spec, observed)?;
    check_volumes(spec, observed)?;
    check_kinds(spec, observed)?;
    check_sizes(spec, observed)?;
    check_network(spec, observed)?;
    check_images(spec, observed, targets)?;
    check_addresses(spec, observed)
}

fn check_flavors(spec: &Spec, observed: &Observed) -> Result<()> {
    let known: Vec<&str> = observed.flavors.iter().map(|f| f.name.as_str()).collect();
    let fallbacks = spec.compute.iter().filter_map(|group| group.elastic.as_ref()).flat_map(|e| &e.flavors);
    let mut wanted = spec.nodes().map(|node| node.flavor).chain(fallbacks.map(String::as_str));
    match wanted.find(|flavor| !known.contains(flavor)) {
        None => Ok(()),
        Some(flavor) => {
            let facts = spec.cloud.facts();
            let (flavor, known) = (flavor.to_string(), known.join(", "));
            Err(Error::Flavor { cloud: facts.kind, flavor, known, hint: facts.hints.flavors })
        }
    }
}

fn check_attached(spec: &Spec, observed: &Observed) -> Result<()> {
    for volume in [&spec.volumes.state, &spec.volumes.home] {
        if let Volume::Attach { name } = volume
            && !observed.attached.contains_key(name)
        {
            return Err(Error::NoVolume(name.clone()));
        }
    }
    Ok(())
}

/// Kiln moves no data from a disk to File Storage, nor back.
fn check_kinds(spec: &Spec, observed: &Observed) -> Result<()> {
    for purpose in Purpose::ALL {
        let (name, served) = (volume_name(spec, purpose), on_file_storage(spec, purpose));
        if observed.volumes.iter().any(|volume| volume.name == name && volume.served.is_some() != served) {
            return Err(Error::OtherKindOfVolume { name, served });
        }
    }
    Ok(())
}

/// A volume in error is recreated only if it certainly holds no data.
fn check_volumes(spec: &Spec, observed: &Observed) -> Result<()> {
    let wanted = Purpose::ALL.map(|purpose| volume_name(spec, purpose));
    let lost = |volume: &&kiln_cloud::Volume| {
        wanted.contains(&volume.name) && volume.status == VolumeStatus::Error && !volume.never_used()
    };
    match observed.volumes.iter().find(lost) {
        Some(volume) => Err(Error::VolumeInError { name: volume.name.clone(), id: volume.id.clone() }),
        None => Ok(()),
    }
}

/// No cloud takes away the end of a volume, where data may be.
fn check_sizes(spec: &Spec, observed: &Observed) -> Result<()> {
    match sizes(spec, observed).find(|(there, size_gib)| there.size_gib > *size_gib) {
        Some((there, size_gib)) => {
            Err(Error::SmallerVolume { name: there.name.clone(), from_gib: there.size_gib, size_gib })
        }
        None => Ok(()),
    }
}

fn check_network(spec: &Spec, observed: &Observed) -> Result<()> {
    match spec.cloud.existing_network() {
        Some(name) if !observed.networks.iter().any(|n| n.name == name) => {
            Err(Error::NoNetwork { name: name.to_string(), hint: spec.cloud.facts().hints.networks })
        }
        _ => Ok(()),
    }
}

/// Images that Kiln does not build, but uses or builds upon, must exist.
fn check_images(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<()> {
    let hint = spec.cloud.facts().hints.images;
    for (name, _) in targets.iter().filter(|(_, id)| id.is_none()) {
        if let Some(ImageSource::Prebuilt(image)) = spec.images.get(name).map(|i| &i.source) {
            return Err(Error::NoImage { name: image.clone(), hint });
        }
        let mut source = Recipe::of(spec, name).map(|recipe| recipe.source);
        while let Some(Source::Image(parent)) = source {
            source = Some(parent.source);
        }
        if let Some(Source::Cloud(image, _)) = source
            && !observed.images.iter().any(|i| i.name == image || i.id == image)
        {
            return Err(Error::NoImage { name: image, hint });
        }
    }
    Ok(())
}

/// An address that the file gives to a node without an instance must be free, and so must the one that the control node had.
fn check_addresses(spec: &Spec, observed: &Observed) -> Result<()> {
    let there = observed.nodes();
    // What goes away gives its address away.
    let staying: Vec<(IpAddr, &str)> =
        spec.nodes().filter_map(|node| Some((there.get(node.name)?.address?, node.name))).collect();
    for node in spec.nodes().filter(|node| !there.contains_key(node.name)) {
        if let Some((address, by)) = staying.iter().find(|(address, _)| node.address == Some(*address)) {
            let (node, by) = (node.name.to_string(), format!("the node {by}"));
            return Err(Error::AddressTaken { node, address: *address, by });
        }
        let is_control = node.role == Role::Control && node.address.is_none();
        let kept = is_control.then(|| control_address(spec, observed)).flatten();
        if let Some((address, by)) = node.address.or(kept).and_then(|a| observed.foreign.get_key_value(&a)) {
            let (node, address, by) = (node.name.to_string(), *address, by.clone());
            return Err(match kept {
                Some(_) => Error::ControlAddressTaken { node, address, by },
                None => Error::AddressTaken { node, address, by },
            });
        }
    }
    Ok(())
}
