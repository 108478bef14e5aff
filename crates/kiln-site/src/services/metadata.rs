//! Keeps the metadata of the instance, which has the node's keys, to root. `kiln node` closes them at boot; this unit keeps
//! them closed when something else changes the node's packet filter.

use kiln_wire::Resource;
use kiln_wire::make::{file, service};

use super::{Context, Service, Starts, Unit};

pub const METADATA: Service = Service {
    name: "metadata",
    units: &[Unit::new(UNIT).starts(Starts::WithSystem)],
    resources,
    ..Service::EMPTY
};

pub const UNIT: &str = "kiln-metadata.service";

fn resources(_: &Context<'_>) -> Vec<Resource> {
    let path = format!("/etc/systemd/system/{UNIT}");
    let id = format!("file:{path}");
    vec![
        Resource::File(file(
            path,
            "# Written by Kiln.\n[Unit]\nDescription=Kiln: keep this instance's metadata to root\n\
             After=kiln-identity.service nftables.service\nBefore=ssh.service sshd.service\nStartLimitIntervalSec=0\n\n\
             [Service]\nType=notify\nExecStart=/usr/local/bin/kiln node keep-metadata\nRestart=always\nRestartSec=1\n\n\
             [Install]\nWantedBy=multi-user.target\n",
        )),
        Resource::Service(service(UNIT, &[&id])),
    ]
}
