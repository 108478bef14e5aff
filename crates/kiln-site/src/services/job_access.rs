//! Who may log in to compute nodes: root, and users with a job there.

use kiln_wire::Resource;
use kiln_wire::make::file;

use super::{Context, Service};

pub const JOB_ACCESS: Service =
    Service { name: "job access", software: |_| &["slurm-pam"], resources, ..Service::EMPTY };

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let family = context.family;
    vec![Resource::File(file(family.paths.pam_sshd, family.pam_sshd_with_job))]
}
