//! The node exporter, which shows the figures of a node's system. Only control may ask it.

use kiln_spec::Role;
use kiln_wire::Resource;
use kiln_wire::make::{file, service};

use super::{arguments, id, is_on};
use crate::service_users::PROMETHEUS;
use crate::services::{Context, OpenTo, Port, Service, Unit};

pub const NODE_EXPORTER: Service = Service {
    name: "node exporter",
    asked_for: Some(is_on),
    software: |_| &["node-exporter"],
    users: &[PROMETHEUS],
    units: &[Unit::new(UNIT)],
    ports: &[Port { tcp: PORT, open_to: OpenTo::Cluster }],
    resources,
    ..Service::EMPTY
};

const UNIT: &str = "node-exporter.service";
pub const PORT: u16 = 9100;
const RULES: &str = "/etc/kiln/node-exporter.nft";
/// What the cluster does not work without.
const UNITS_OF_CONTROL: &str = "(kilnd|mariadb|munge|slurmctld|slurmdbd)[.]service";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let mut options = vec![format!("--web.listen-address=:{PORT}")];
    if context.role == Role::Control {
        options.push("--collector.systemd".into());
        options.push(format!("--collector.systemd.unit-include={UNITS_OF_CONTROL}"));
    } else {
        // Debian's asks for all units of every node.
        options.push("--no-collector.systemd".into());
    }
    let unit = context.family.unit(UNIT);
    let options = arguments(context.family, UNIT, &options);
    let rules = file(RULES, rules(context));
    let drop_in = file(
        format!("/etc/systemd/system/{unit}.d/kiln.conf"),
        format!(
            "# Written by Kiln: nobody but the control node may connect, at any time.\n\
             [Service]\nExecStartPre=+/usr/sbin/nft -f {RULES}\n"
        ),
    );
    let watched = [id(&options), id(&rules), id(&drop_in)];
    let watched: Vec<&str> = watched.iter().map(String::as_str).collect();
    vec![
        Resource::File(options.clone()),
        Resource::File(rules),
        Resource::File(drop_in),
        Resource::Service(service(unit, &watched)),
    ]
}

/// Adding the table before deleting it makes this work whether or not it was there. The cloud's own rules let nodes of the
/// cluster connect to each other, and users run programs on them.
fn rules(context: &Context<'_>) -> String {
    let control = context.inventory.nodes.get(&context.spec.control.node).map(|facts| facts.address);
    let allowed = match control {
        _ if context.role == Role::Control => "iif \"lo\"".to_string(),
        Some(address) if address.is_ipv6() => format!("ip6 saddr {address}"),
        Some(address) => format!("ip saddr {address}"),
        None => "iif \"lo\"".to_string(),
    };
    format!(
        "# Written by Kiln.\nadd table inet kiln_monitoring\ndelete table inet kiln_monitoring\n\
         table inet kiln_monitoring {{\n  chain input {{\n    type filter hook input priority 0; policy accept;\n    \
         tcp dport {PORT} {allowed} accept\n    tcp dport {PORT} drop\n  }}\n}}\n"
    )
}
