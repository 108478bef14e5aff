//! kilnd and the programs Slurm calls, on the control node.

use kiln_spec::{Role, Spec};

use crate::bundle::{Link, Resource};
use crate::inputs::{Inventory, Secrets};
use crate::make::{directory, file, service};
use crate::storage;

/// slurm.conf cannot give a hook arguments; the binary knows by its name which one it is.
pub const REBOOT: &str = "/usr/local/libexec/kiln/kiln-reboot";
pub const RESUME: &str = "/usr/local/libexec/kiln/kiln-resume";
pub const SUSPEND: &str = "/usr/local/libexec/kiln/kiln-suspend";
pub const RESUME_FAIL: &str = "/usr/local/libexec/kiln/kiln-resume-fail";

/// The hooks must be there before slurmctld reads their names.
pub fn before_slurmctld(spec: &Spec, secrets: &Secrets) -> Vec<Resource> {
    let hook = |path: &str| Resource::Link(Link { path: path.into(), target: "/usr/local/bin/kiln".into() });
    vec![
        directory("/var/lib/state/kiln", "slurm", 0o700),
        directory("/var/spool/kiln", "slurm", 0o700),
        // The fleet's names alone: a hook has no time to read the whole file.
        Resource::File(file("/etc/kiln/nodes", node_names(spec))),
        Resource::File(file("/etc/kiln/fleet.json", &secrets.fleet_file).owned_by("slurm", 0o600).secret()),
        // For `kiln rebuild --user`. Slurm's user runs jobs in any user's name as it is; as root it submits itself.
        Resource::File(
            file(
                "/etc/sudoers.d/kiln-submit",
                "# Written by Kiln.\nslurm ALL=(ALL, !root) NOPASSWD: /usr/bin/sbatch\n",
            )
            .owned_by("root", 0o440),
        ),
        hook(REBOOT),
        hook(RESUME),
        hook(SUSPEND),
        hook(RESUME_FAIL),
    ]
}

fn node_names(spec: &Spec) -> String {
    let compute = spec.nodes().filter(|node| node.role == Role::Compute);
    compute
        .fold(String::new(), |text, node| text + node.name + if node.elastic { " elastic\n" } else { "\n" })
}

/// kilnd reads the fleet file again by itself; only another binary or unit restarts it.
pub fn kilnd(spec: &Spec, inventory: &Inventory) -> Vec<Resource> {
    vec![
        Resource::File(file("/etc/kiln/kilnd-restart", format!("{}\n", inventory.kiln))),
        Resource::File(file(
            "/etc/systemd/system/kilnd.service",
            "# Written by Kiln.\n[Unit]\nDescription=Kiln daemon: answers Slurm's hooks and drives rollouts\n\
             After=network-online.target munge.service slurmctld.service\nStartLimitIntervalSec=0\n\
             RequiresMountsFor=/var/lib/state\n\n\
             [Service]\nUser=slurm\nGroup=slurm\nExecStart=/usr/local/bin/kiln daemon\nRestart=always\nRestartSec=1\n\n\
             [Install]\nWantedBy=multi-user.target\n",
        )),
        Resource::Service(storage::resident(
            spec,
            service(
                "kilnd.service",
                &["file:/etc/kiln/kilnd-restart", "file:/etc/systemd/system/kilnd.service"],
            ),
        )),
    ]
}
