//! What every node has before its services: its own keys, and programs that nothing works without.

use kiln_spec::Role;
use kiln_wire::make::{directory, file};
use kiln_wire::{Resource, paths};

use super::{Context, Service, Starts, Unit};
use crate::secret::{Form, Secret};

pub const BASE: Service = Service {
    name: "base",
    software: |role| match role {
        Role::Control | Role::Compute => &["ca-certificates", "dbus", "iproute2", "nftables", "procps"],
        Role::Login => &["ca-certificates", "dbus", "iproute2", "less", "nftables", "procps"],
    },
    // Kiln has rules of its own, which the system's empty ones would flush.
    units: &[Unit::new("nftables.service").starts(Starts::Never)],
    secrets: &[NODE_SEED],
    resources,
    ..Service::EMPTY
};

pub const NODE_SEED: Secret = Secret {
    name: "node-seed",
    purpose: "each node's sealing key and SSH host key are derived from it",
    form: Form::Hex,
    on_nodes: false,
};

/// The keys came with the node's metadata too; here they follow a rotation.
fn resources(context: &Context<'_>) -> Vec<Resource> {
    let keys = context.keys;
    vec![
        directory(paths::CONFIG, "root", 0o755),
        directory("/etc/ssh/kiln-keys", "root", 0o755),
        Resource::File(
            file(paths::SEAL_KEY, format!("{}\n", keys.seal_key.expose_secret()))
                .owned_by("root", 0o600)
                .secret(),
        ),
        Resource::File(file(paths::SENDER_KEY, format!("{}\n", keys.sender_key))),
        Resource::File(
            file("/etc/ssh/ssh_host_ed25519_key", keys.ssh_host_key.expose_secret())
                .owned_by("root", 0o600)
                .secret(),
        ),
        Resource::File(file("/etc/ssh/ssh_host_ed25519_key.pub", format!("{}\n", keys.ssh_host_public))),
        Resource::File(file(context.family.paths.locale, format!("LANG={}\n", context.spec.system.locale))),
        Resource::File(file("/etc/ssh/kiln-keys/root", format!("{}\n", context.secrets.ssh_public_key))),
    ]
}
