//! The third stage: everything checked against everything else. Each module checks one part of the
//! file and reports all it finds; the spec is handed out only if nothing was reported.

mod cloud;
mod elastic;
mod extras;
mod images;
mod names;
mod network;
mod nodes;
mod overrides;
mod own_files;
mod partitions;
mod rebuild;
mod slurm;
mod ssh_keys;
mod users;

use crate::diagnostic::Findings;
use crate::merge::{Disk, Merged};
use crate::tables::VolumeMode;
use crate::units::size_gib;
use crate::written::At;
use crate::{ControlSpec, Spec, Volume, Volumes};

/// The names of an image, a group, ... that exist, for "unknown" errors.
fn unknown(kind: &str, name: &crate::written::Text, known: &[&str], findings: &mut Findings<'_>) {
    (findings.error(
        match kind {
            "image" => "unknown-image",
            _ => "unknown-group",
        },
        name.span.clone(),
        format!("there is no {kind} `{}`", name.value),
    ))
    .expected(crate::words::or_list(known))
    .maybe_hint(crate::nearest::did_you_mean(&name.value, known.iter().copied()));
}

pub(crate) fn validate(merged: Merged, findings: &mut Findings<'_>) -> Option<Spec> {
    if let Some(name) = &merged.name {
        names::check_cluster_name(name, findings);
    }
    if let (Some(domain), Some(name)) = (&merged.domain, &merged.name)
        && domain.span != name.span
    {
        names::check_domain(domain, findings);
    }
    let concurrency = concurrency(&merged, findings);
    let subnet = network::subnet(&merged.cloud, findings);
    let cloud = cloud::cloud(&merged.cloud, subnet, findings);
    let images = images::images(&merged, findings);
    let (login, compute) = nodes::groups(&merged, findings);
    network::check_addresses(&merged, subnet, &login, &compute, findings);
    images::check_use(&merged, &images, findings);
    let partitions = partitions::partitions(&merged, findings);
    let rebuild = rebuild::rebuild(&merged, &compute, findings);
    let slurm = slurm::config(&merged.slurm, findings);
    let users = users::users(&merged.users, findings);
    let reconcile = elastic::reconcile(&merged, findings);
    let roles = extras::roles(&merged.roles, findings);
    let volumes = Volumes {
        state: volume("state", &merged.state, findings),
        home: volume("home", &merged.home, findings),
    };
    if findings.has_errors() {
        return None;
    }
    Some(Spec {
        name: merged.name?.value,
        domain: merged.domain?.value,
        cloud,
        images,
        control: ControlSpec {
            node: merged.control.node.value,
            flavor: merged.control.flavor.value,
            image: merged.control.image?.value,
        },
        login,
        compute,
        volumes,
        partitions,
        rebuild,
        slurm,
        users,
        roles,
        concurrency,
        reconcile,
    })
}

fn concurrency(merged: &Merged, findings: &mut Findings<'_>) -> usize {
    let At { value, span } = &merged.concurrency;
    if !(1..=200).contains(value) {
        let message = format!("`concurrency` cannot be {value}");
        findings.error("out-of-range", span.clone(), message).expected("1 to 200");
    }
    usize::try_from(*value).unwrap_or(1)
}

fn volume(which: &str, disk: &Disk, findings: &mut Findings<'_>) -> Volume {
    if let (Some(name), VolumeMode::Manage | VolumeMode::None) = (&disk.name, disk.mode) {
        (findings.error(
            "bad-volume",
            name.span.clone(),
            format!("the {which} volume has a name but is not attached"),
        ))
        .expected("no `name`")
        .hint("to use an existing volume, set mode = \"attach\"");
    }
    if let (Some(size), VolumeMode::Attach | VolumeMode::None) = (&disk.written_size, disk.mode) {
        (findings.error(
            "bad-volume",
            size.span.clone(),
            format!("the {which} volume has a size but Kiln does not create it"),
        ))
        .expected("no `size`")
        .hint("to let Kiln create the volume, set mode = \"manage\"");
    }
    match disk.mode {
        VolumeMode::None => Volume::None,
        VolumeMode::Manage => match size_gib(&disk.size.value) {
            Ok(size_gib) => Volume::Manage { size_gib },
            Err(expected) => {
                let message = format!("`{}` is not the size of a volume", disk.size.value);
                findings.error("bad-size", disk.size.span.clone(), message).expected(expected);
                Volume::None
            }
        },
        VolumeMode::Attach => {
            if let Some(name) = &disk.name {
                names::check_volume_name(name, findings);
            } else {
                let message = format!("the {which} volume has no `name`");
                (findings.error("missing-key", disk.at.clone(), message))
                    .expected("the name of the volume to attach: { mode = \"attach\", name = \"...\" }");
            }
            Volume::Attach { name: disk.name.clone().unwrap_or_default().value }
        }
    }
}
