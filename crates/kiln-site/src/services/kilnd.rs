//! kilnd, which answers Slurm's hooks and drives rollouts.

use kiln_wire::make::{file, service};
use kiln_wire::{Resource, paths};

use super::slurm::SLURM_CONF;
use super::{Context, Service, Unit, slurmctld};
use crate::secret::{Form, Secret};
use crate::service_users;
use crate::volumes::Purpose;

pub const KILND: Service = Service {
    name: "kilnd",
    units: &[Unit::new(UNIT)],
    users: &[service_users::KILND],
    volumes: &[Purpose::State],
    secrets: &[CLOUD_TOKEN],
    resources,
    ..Service::EMPTY
};

pub const CLOUD_TOKEN: Secret = Secret {
    name: "cloud-token",
    purpose: "the control node's access to the cloud's API",
    form: Form::Hex,
    on_nodes: false,
};

const UNIT: &str = "kilnd.service";

/// It becomes Slurm's user for Slurm's commands, and another user to submit a job of that user's (`setpriv`), which takes the
/// two capabilities. Whoever has them can become root as well: that root has no other capability, a system that it cannot write
/// to, and no systemd to ask.
const UNIT_FILE: &str = "# Written by Kiln.
[Unit]
Description=Kiln daemon: answers Slurm's hooks and drives rollouts
After=network-online.target munge.service slurmctld.service
StartLimitIntervalSec=0
RequiresMountsFor=/var/lib/state

[Service]
User=kilnd
Group=kilnd
ExecStart=/usr/local/bin/kiln daemon
Restart=always
RestartSec=1
UMask=0077
AmbientCapabilities=CAP_SETUID CAP_SETGID
CapabilityBoundingSet=CAP_SETUID CAP_SETGID
SecureBits=noroot noroot-locked
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=-/var/lib/state -/var/spool/kiln
InaccessiblePaths=-/run/systemd/private -/run/dbus/system_bus_socket
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
";

/// kilnd reads the fleet file again by itself; only another binary or unit restarts it.
fn resources(context: &Context<'_>) -> Vec<Resource> {
    // Older Kilns ran it as Slurm's user.
    let mut resources = service_users::KILND.tree(paths::STORE_DIRECTORY, 0o700).to_vec();
    resources.extend([
        fleet_file(context),
        Resource::File(file("/etc/kiln/kilnd-restart", format!("{}\n", context.inventory.kiln))),
        Resource::File(file("/etc/systemd/system/kilnd.service", UNIT_FILE)),
        Resource::Service(service(
            UNIT,
            &["file:/etc/kiln/kilnd-restart", "file:/etc/systemd/system/kilnd.service"],
        )),
    ]);
    resources
}

/// Nodes that the file no longer has are none of kilnd's, so it must not know them for longer than Slurm, nor for less
/// long: the file waits for slurmctld to have taken the slurm.conf that goes with it.
fn fleet_file(context: &Context<'_>) -> Resource {
    let fleet_file = file(paths::FLEET_FILE, context.secrets.fleet_file.expose_secret())
        .owned_by(service_users::KILND.name, 0o600)
        .secret();
    Resource::File(fleet_file.needs(SLURM_CONF).needs(slurmctld::SERVICE).needs(slurmctld::RECONFIGURED))
}
