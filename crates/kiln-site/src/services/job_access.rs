//! Who may log in to compute nodes: root, and users with a job there, until it ends. Where Slurm has cgroups, a login becomes
//! part of the job and ends with it; elsewhere Slurm's Epilog ends it.

use kiln_wire::bundle::Link;
use kiln_wire::make::file;
use kiln_wire::{Resource, paths};

use super::{Context, Service};

/// Checks for a job, and no more.
pub const JOB_ACCESS: Service = Service {
    name: "job access",
    wanted: Some(|spec| !spec.cloud.facts().delegates_cgroups),
    software: |_| &["slurm-pam"],
    resources: |context| {
        let epilog = Link { path: paths::hook::EPILOG.into(), target: paths::KILN.into() };
        vec![Resource::Link(epilog), pam(context, context.family.pam_sshd_with_job)]
    },
    ..Service::EMPTY
};

/// Checks for a job, and makes the login part of it.
pub const JOB_ADOPTION: Service = Service {
    name: "job adoption",
    wanted: Some(|spec| spec.cloud.facts().delegates_cgroups),
    software: |_| &["slurm-pam-adopt"],
    resources: |context| vec![pam(context, context.family.pam_sshd_in_job)],
    ..Service::EMPTY
};

fn pam(context: &Context<'_>, stack: &str) -> Resource {
    Resource::File(file(context.family.paths.pam_sshd, stack))
}
