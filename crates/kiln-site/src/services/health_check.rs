//! What Slurm's health check looks at. slurmd runs it on every compute node; it drains the node, and ends that drain, itself.

use kiln_spec::{HealthPart, Role};
use kiln_wire::bundle::Link;
use kiln_wire::checkup::ServiceCheck;
use kiln_wire::health_check::{HealthCheck, MountCheck, Size};
use kiln_wire::make::file;
use kiln_wire::{Format as _, Resource, Version, paths};

use super::{Context, ForJobs, Service, check_of, of};
use crate::slurm_conf;
use crate::volumes::{Purpose, exists};

pub const HEALTH_CHECK: Service = Service { name: "health check", resources, ..Service::EMPTY };

/// Where jobs and slurmd write, on the node's own disk.
const PLACES: [&str; 4] = ["/var/lib/kiln", "/tmp", "/var/tmp", "/var/spool/slurmd"];

fn resources(context: &Context<'_>) -> Vec<Resource> {
    // What has no fields that JSON cannot have is always written.
    let json = health_check(context).to_json().unwrap_or_default();
    vec![
        Resource::File(file(paths::HEALTH_CHECK, String::from_utf8_lossy(&json))),
        Resource::Link(Link { path: paths::hook::HEALTH.into(), target: paths::KILN.into() }),
    ]
}

fn health_check(context: &Context<'_>) -> HealthCheck {
    let (spec, health) = (context.spec, &context.spec.health);
    let group = spec.compute.iter().find(|group| group.nodes.iter().any(|name| name == context.node));
    // Elsewhere CPUs, memory and clock are the host's.
    let has_kernel = spec.cloud.facts().has_kernels;
    let on = |part: HealthPart| health.looks_at(part);
    let promised = group.and_then(|group| slurm_conf::promised(group, context.node, context.inventory));
    let gpus = group.map_or(0, |group| slurm_conf::gpu_count(spec, group, context.node, context.inventory));
    HealthCheck {
        format: Version,
        size: promised
            .filter(|_| has_kernel && on(HealthPart::Size))
            .map(|(cpus, memory_mib)| Size { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory_mib }),
        gpus: if has_kernel && on(HealthPart::Gpus) { gpus } else { 0 },
        services: if on(HealthPart::Services) { services(context) } else { Vec::new() },
        mounts: if on(HealthPart::Mounts) { mounts(context) } else { Vec::new() },
        places: if on(HealthPart::Space) { PLACES.map(String::from).into() } else { Vec::new() },
        clock: has_kernel && on(HealthPart::Clock),
        bundle: on(HealthPart::Bundle),
        commands: health.commands.clone(),
    }
}

fn services(context: &Context<'_>) -> Vec<ServiceCheck> {
    let wanted = of(Role::Compute).iter().filter(|service| service.is_wanted(context.spec));
    let check = |service: &Service| {
        let check = check_of(service, context.spec, Role::Compute, context.family);
        match service.for_jobs {
            ForJobs::No => None,
            ForJobs::Runs => Some(ServiceCheck { questions: Vec::new(), ..check }),
            // What answers runs: asking systemd as well would take as long again.
            ForJobs::Works if check.questions.is_empty() => Some(check),
            ForJobs::Works => Some(ServiceCheck { units: Vec::new(), ..check }),
        }
    };
    wanted.filter_map(|service| check(service)).collect()
}

/// Those that jobs need.
fn mounts(context: &Context<'_>) -> Vec<MountCheck> {
    let home = exists(context.spec, Purpose::Home)
        .then(|| MountCheck { path: Purpose::Home.path().into(), writable: true });
    let needed = context.spec.mounts.iter().filter(|m| m.required && m.roles.contains(&Role::Compute));
    let of_site = needed.map(|m| MountCheck { path: m.path.clone(), writable: !m.is_read_only() });
    home.into_iter().chain(of_site).collect()
}
