//! The third stage: everything checked against everything else. What
//! concerns one table is beside that table; what concerns names, nodes and networks of several is here. Each part
//! reports all it finds, and there is a spec only if nothing was reported.

pub(crate) mod names;
mod network;
pub(crate) mod nodes;
pub(crate) mod overrides;
pub(crate) mod own_files;
pub(crate) mod paths;
pub(crate) mod ssh_keys;
pub(crate) mod switches;

use crate::diagnostic::Findings;
use crate::merge::Merged;
use crate::parse::Files;
use crate::tables::{
    accounting, backup, cluster, dashboard, directory, gpus, health, image, monitoring, mount, notify,
    partition, pulp, rebuild, reconcile, role, slurm, software, source, system, time, user, user_group,
    volumes,
};
use crate::{ControlSpec, Spec, System, Volumes};

/// The names of an image, a group, ... that exist, for "unknown" errors.
pub(crate) fn unknown(kind: &str, name: &crate::written::Text, known: &[&str], findings: &mut Findings<'_>) {
    (findings.error(
        match kind {
            "image" => "unknown-image",
            "source" => "unknown-source",
            "software" => "unknown-software",
            "account" => "unknown-account",
            "QOS" => "unknown-qos",
            _ => "unknown-group",
        },
        name.span.clone(),
        format!("there is no {kind} `{}`", name.value),
    ))
    .expected(crate::words::or_list(known))
    .maybe_hint(crate::nearest::did_you_mean(&name.value, known.iter().copied()));
}

pub(crate) fn validate(merged: Merged, files: Files<'_>, findings: &mut Findings<'_>) -> Option<Spec> {
    if let Some(name) = &merged.name {
        names::check_cluster_name(name, findings);
    }
    if let (Some(domain), Some(name)) = (&merged.domain, &merged.name)
        && domain.span != name.span
    {
        names::check_domain(domain, findings);
    }
    let concurrency = cluster::concurrency(&merged, findings);
    let subnet = network::subnet(&merged.cloud, findings);
    let cloud = crate::cloud::validate(&merged.cloud, subnet, findings);
    let pulp = pulp::validate(merged.pulp.as_ref(), findings);
    let sources = source::validate(&merged.sources, pulp.as_ref(), files, findings);
    let images = image::validate(&merged, findings);
    let systems: Vec<System> = images.values().map(|image| image.system).collect();
    let software = software::validate(&merged, &systems, findings);
    let (login, compute) = nodes::groups(&merged, findings);
    network::check_addresses(&merged, subnet, &login, &compute, findings);
    image::check_use(&merged, &images, findings);
    let partitions = partition::validate(&merged, findings);
    let rebuild = rebuild::validate(&merged, &compute, findings);
    let slurm = slurm::validate(&merged.slurm, !rebuild.is_empty(), &partitions, findings);
    let users = user::validate(&merged.users, findings);
    let user_groups = user_group::validate(&merged.user_groups, &merged.users, findings);
    let directory = directory::validate(merged.directory.as_ref(), merged.domain.as_ref(), files, findings);
    let dashboard = dashboard::validate(merged.dashboard.as_ref(), files, findings);
    let notify = notify::validate(merged.notify.as_ref(), merged.domain.as_ref(), findings);
    let reconcile = reconcile::validate(&merged.reconcile, findings);
    let health = health::validate(&merged.health, findings);
    let mounts = mount::validate(&merged, findings);
    let system = system::validate(&merged.system, files, findings);
    let time = time::validate(&merged.time, findings);
    let roles = role::validate(&merged.roles, &systems, findings);
    merged.compute.iter().for_each(|group| gpus::check_cloud(group, cloud.facts(), findings));
    for (which, disk) in [("state", &merged.state), ("home", &merged.home)] {
        volumes::check_file_storage(which, disk, cloud.facts(), findings);
    }
    volumes::quota("state", &merged.state, cloud.facts(), findings);
    let home_quota = volumes::quota("home", &merged.home, cloud.facts(), findings);
    let volumes = Volumes {
        state: volumes::validate("state", &merged.state, findings),
        home: volumes::validate("home", &merged.home, findings),
        home_quota,
    };
    let backup = backup::validate(&merged.backup, findings);
    let accounting = accounting::slurmdbd(&merged.accounting, &merged.slurm, findings);
    let accounts = accounting::accounts(&merged, findings);
    let monitoring = monitoring::validate(merged.monitoring.as_ref(), findings);
    if findings.has_errors() {
        return None;
    }
    Some(Spec {
        name: merged.name?.value,
        domain: merged.domain?.value,
        cloud,
        images,
        software,
        sources,
        pulp,
        control: ControlSpec {
            node: merged.control.node.value,
            flavor: merged.control.flavor.value,
            image: merged.control.image?.value,
        },
        login,
        compute,
        volumes,
        backup,
        accounting,
        accounts,
        monitoring,
        partitions,
        rebuild,
        slurm,
        users,
        user_groups,
        directory,
        roles,
        concurrency,
        health,
        mounts,
        dashboard,
        notify,
        reconcile,
        system,
        time,
    })
}
