//! kilnd, which answers Slurm's hooks and drives rollouts.

use kiln_spec::Spec;
use kiln_wire::Resource;
use kiln_wire::make::{command, file, service};

use super::{Context, Service, Unit};
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

/// kilnd reads the fleet file again by itself; only another binary or unit restarts it.
fn resources(context: &Context<'_>) -> Vec<Resource> {
    let mut resources: Vec<Resource> = account_of_slurm(context.spec).into_iter().collect();
    resources.extend([
        Resource::File(file("/etc/kiln/kilnd-restart", format!("{}\n", context.inventory.kiln))),
        Resource::File(file(
            "/etc/systemd/system/kilnd.service",
            "# Written by Kiln.\n[Unit]\nDescription=Kiln daemon: answers Slurm's hooks and drives rollouts\n\
             After=network-online.target munge.service slurmctld.service\nStartLimitIntervalSec=0\n\
             RequiresMountsFor=/var/lib/state\n\n\
             [Service]\nUser=slurm\nGroup=slurm\nExecStart=/usr/local/bin/kiln daemon\nRestart=always\nRestartSec=1\n\n\
             [Install]\nWantedBy=multi-user.target\n",
        )),
        Resource::Service(service(
            UNIT,
            &["file:/etc/kiln/kilnd-restart", "file:/etc/systemd/system/kilnd.service"],
        )),
    ]);
    resources
}

/// Where only users with an account may submit, rebuild jobs need one too: Slurm's own user is no exception.
fn account_of_slurm(spec: &Spec) -> Option<Resource> {
    let enforced = spec.slurm.config.keys().any(|key| key.eq_ignore_ascii_case("AccountingStorageEnforce"));
    let known = "sacctmgr --noheader --parsable2 show associations user=slurm format=user | grep -qx slurm";
    let add = command(
        "an account for rebuild jobs",
        &["sacctmgr", "--immediate", "add", "user", "slurm", "account=root"],
    );
    // slurmctld has to register the cluster first.
    (enforced && !spec.rebuild.is_empty())
        .then(|| Resource::Command(add.unless(&["sh", "-c", known]).retry(60)))
}
