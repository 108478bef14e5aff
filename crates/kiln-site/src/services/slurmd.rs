//! slurmd, which gets its configuration from slurmctld.

use kiln_wire::Resource;
use kiln_wire::bundle::EVERYTHING;
use kiln_wire::make::{directory, file, service};

use super::{Context, OpenTo, Port, Service, Unit, munge};
use crate::slurm_conf::{SLURMCTLD_PORT, SLURMD_PORT, other_files};

pub const SLURMD: Service = Service {
    name: "slurmd",
    software: |_| &["slurmd", "pmix"],
    units: &[Unit::new(UNIT)],
    ports: &[Port { tcp: SLURMD_PORT, open_to: OpenTo::Cluster }],
    resources,
    ..Service::EMPTY
};

const UNIT: &str = "slurmd.service";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let spec = context.spec;
    let options = format!("{}/slurmd", context.family.paths.environment);
    let mut slurmd = service(
        UNIT,
        &[
            &format!("file:{options}"),
            "file:/etc/kiln/slurmd-restart",
            munge::KEY_ID,
            "file:/etc/systemd/system/slurmd.service.d/kiln.conf",
        ],
    );
    // Started once all of the bundle is applied, never by systemd alone: a node that could not be configured must not
    // join. A slurmd that runs already goes on, with its jobs.
    slurmd = slurmd.needs(EVERYTHING);
    slurmd.enabled = false;
    let mut resources = vec![
        directory("/var/spool/slurmd", "root", 0o755),
        Resource::File(file(
            options,
            format!(
                "# Written by Kiln.\nSLURMD_OPTIONS=\"--conf-server {}:{SLURMCTLD_PORT}\"\n",
                spec.control.node
            ),
        )),
        Resource::File(file(
            "/etc/kiln/slurmd-restart",
            context.slurm.slurmd_restart.clone()
                + &other_files::slurmd_restart(spec, context.node, context.inventory),
        )),
        Resource::File(file(
            "/etc/systemd/system/slurmd.service.d/kiln.conf",
            "# Written by Kiln: the configuration comes from slurmctld, and while slurmctld is away slurmd keeps asking.\n\
             # A scope of jobs that has failed would keep slurmd from making its own.\n\
             [Unit]\nConditionPathExists=\nStartLimitIntervalSec=0\n[Service]\n\
             ExecStartPre=-/usr/bin/systemctl reset-failed *slurmstepd.scope\nRestart=on-failure\nRestartSec=1\n",
        )),
        Resource::Service(slurmd),
    ];
    resources.extend(other_files::counted(spec, context.node, context.inventory));
    resources
}
