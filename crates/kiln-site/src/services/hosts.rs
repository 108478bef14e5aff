//! How nodes find and know each other: addresses and SSH host keys.

use std::fmt::Write as _;

use kiln_wire::Resource;
use kiln_wire::make::file;

use super::{Context, Service};

pub const HOSTS: Service = Service { name: "hosts", resources, ..Service::EMPTY };

fn resources(context: &Context<'_>) -> Vec<Resource> {
    vec![hosts(context), known_hosts(context)]
}

fn hosts(context: &Context<'_>) -> Resource {
    let mut text =
        String::from("# Written by Kiln.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    for (name, facts) in &context.inventory.nodes {
        let _ = writeln!(text, "{} {name}.{} {name}", facts.address, context.spec.domain);
    }
    Resource::File(file("/etc/hosts", text))
}

/// Users who go from node to node meet only keys that are known.
fn known_hosts(context: &Context<'_>) -> Resource {
    let domain = &context.spec.domain;
    let mut text = String::from("# Written by Kiln.\n");
    for (name, facts) in &context.inventory.nodes {
        let _ = writeln!(text, "{name},{name}.{domain},{} {}", facts.address, facts.ssh_host_public);
    }
    Resource::File(file("/etc/ssh/ssh_known_hosts", text))
}
