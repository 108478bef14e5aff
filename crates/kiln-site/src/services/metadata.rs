//! Keeps the metadata of the instance, which has the node's keys, to root. `kiln node` closes them at boot; this unit keeps
//! them closed when something else changes the node's packet filter. kilnd is let in where it signs as the instance.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::make::{file, service};

use super::{Context, Service, Starts, Unit};
use crate::service_users::KILND;

pub const METADATA: Service = Service {
    name: "metadata",
    units: &[Unit::new(UNIT).starts(Starts::WithSystem)],
    resources,
    ..Service::EMPTY
};

pub const UNIT: &str = "kiln-metadata.service";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let path = format!("/etc/systemd/system/{UNIT}");
    let id = format!("file:{path}");
    vec![
        Resource::File(file(path, unit_file(context.spec, context.role))),
        Resource::Service(service(UNIT, &[&id])),
    ]
}

pub(super) fn unit_file(spec: &Spec, role: Role) -> String {
    let also = match role {
        Role::Control if spec.cloud.facts().signs_as_instance => format!(" --also={}", KILND.id),
        _ => String::new(),
    };
    format!(
        "# Written by Kiln.\n[Unit]\nDescription=Kiln: keep this instance's metadata to root\n\
         After=kiln-identity.service nftables.service\nBefore=ssh.service sshd.service\nStartLimitIntervalSec=0\n\n\
         [Service]\nType=notify\nExecStart=/usr/local/bin/kiln node keep-metadata{also}\nRestart=always\nRestartSec=1\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}
