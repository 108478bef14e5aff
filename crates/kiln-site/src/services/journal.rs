//! The journal, kept across reboots.

use kiln_wire::Resource;
use kiln_wire::make::{file, service};

use super::{Context, Service, Starts, Unit};

const UNIT: &str = "systemd-journald.service";

pub const JOURNAL: Service = Service {
    name: "journal",
    units: &[Unit::new(UNIT).starts(Starts::WithSystem)],
    resources,
    ..Service::EMPTY
};

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let system = &context.spec.system;
    // rsyslog has no other way to them on every system.
    let forward = if system.syslog.is_some() { "ForwardToSyslog=yes\n" } else { "" };
    let text = format!(
        "# Written by Kiln: keep the journal across reboots, within bounds.\n[Journal]\nStorage=persistent\nSystemMaxUse={}M\n{forward}",
        system.journal_mib
    );
    vec![
        Resource::File(file("/etc/systemd/journald.conf.d/kiln.conf", text)),
        Resource::Service(service(UNIT, &["file:/etc/systemd/journald.conf.d/kiln.conf"]).running_only()),
    ]
}
