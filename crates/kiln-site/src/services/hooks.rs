//! The programs that Slurm calls on the control node, and what they read.

use kiln_spec::{Role, Spec};
use kiln_wire::bundle::Link;
use kiln_wire::make::{directory, file};
use kiln_wire::{NodeNames, Resource, paths};

use super::slurm::SLURM_CONF;
use super::{Context, Service};

pub const HOOKS: Service = Service { name: "hooks", resources, ..Service::EMPTY };

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let hook = |path: &str| Resource::Link(Link { path: path.into(), target: paths::KILN.into() });
    vec![
        directory(paths::STORE_DIRECTORY, "slurm", 0o700),
        directory(paths::SPOOL, "slurm", 0o700),
        // The fleet's names alone: a hook has no time to read the whole file. As long as Slurm refuses the new slurm.conf, it
        // calls the hooks for the nodes of the old one.
        Resource::File(file(paths::NODE_NAMES, node_names(context.spec)).needs(SLURM_CONF)),
        // For `kiln rebuild --user`. Slurm's user runs jobs in any user's name as it is; as root it submits itself.
        Resource::File(
            file(
                "/etc/sudoers.d/kiln-submit",
                "# Written by Kiln.\nslurm ALL=(ALL, !root) NOPASSWD: /usr/bin/sbatch\n",
            )
            .owned_by("root", 0o440),
        ),
        hook(paths::hook::REBOOT),
        hook(paths::hook::RESUME),
        hook(paths::hook::SUSPEND),
        hook(paths::hook::RESUME_FAIL),
    ]
}

fn node_names(spec: &Spec) -> String {
    let compute = spec.nodes().filter(|node| node.role == Role::Compute);
    NodeNames::to_text(compute.map(|node| (node.name, node.elastic)))
}
