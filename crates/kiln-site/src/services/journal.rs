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

fn resources(_: &Context<'_>) -> Vec<Resource> {
    vec![
        Resource::File(file(
            "/etc/systemd/journald.conf.d/kiln.conf",
            "# Written by Kiln: keep the journal across reboots, within bounds.\n[Journal]\nStorage=persistent\nSystemMaxUse=200M\n",
        )),
        Resource::Service(service(UNIT, &["file:/etc/systemd/journald.conf.d/kiln.conf"]).running_only()),
    ]
}
