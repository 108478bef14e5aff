//! The programs that Slurm calls on the control node, and what they read.

use kiln_spec::{Role, Spec};
use kiln_wire::bundle::{Directory, Link};
use kiln_wire::make::file;
use kiln_wire::{NodeNames, Resource, paths};

use super::slurm::SLURM_CONF;
use super::{Context, Service};
use crate::service_users::{KILND, SLURM};

pub const HOOKS: Service = Service { name: "hooks", users: &[KILND, SLURM], resources, ..Service::EMPTY };

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let hook = |path: &str| Resource::Link(Link { path: path.into(), target: paths::KILN.into() });
    let mut resources: Vec<Resource> = paths::SPOOLS.map(spool).into();
    resources.extend([
        // The fleet's names alone: a hook has no time to read the whole file. As long as Slurm refuses the new slurm.conf, it
        // calls the hooks for the nodes of the old one.
        Resource::File(file(paths::NODE_NAMES, node_names(context.spec)).needs(SLURM_CONF)),
        hook(paths::hook::REBOOT),
        hook(paths::hook::RESUME),
        hook(paths::hook::SUSPEND),
        hook(paths::hook::RESUME_FAIL),
    ]);
    resources
}

/// Hooks run as Slurm's user, who may leave files there for kilnd and do nothing else.
fn spool(path: &str) -> Resource {
    let (path, owner, group) = (path.into(), KILND.name.into(), SLURM.name.into());
    Resource::Directory(Directory { path, owner, group, mode: 0o1730 })
}

fn node_names(spec: &Spec) -> String {
    let compute = spec.nodes().filter(|node| node.role == Role::Compute);
    NodeNames::to_text(compute.map(|node| (node.name, node.elastic)))
}
