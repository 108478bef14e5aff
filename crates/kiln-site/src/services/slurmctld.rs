//! slurmctld.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{command, file, service};

use super::slurm::{CGROUP_CONF, SLURM_CONF};
use super::{Context, OpenTo, Port, Service, Unit, munge, rest, slurm_accounts};
use crate::service_users::SLURM;
use crate::slurm_conf::{SLURMCTLD_PORT, STATE, other_files};
use crate::volumes::{Purpose, not_half_restored};

pub const SLURMCTLD: Service = Service {
    name: "slurmctld",
    software: |_| &["slurmctld", "pmix"],
    users: &[SLURM],
    units: &[Unit::new(UNIT).saves_on_stop()],
    volumes: &[Purpose::State],
    ports: &[Port { tcp: SLURMCTLD_PORT, open_to: OpenTo::Cluster }],
    resources,
    health,
    ..Service::EMPTY
};

const UNIT: &str = "slurmctld.service";
/// That it runs, and that it has read the present slurm.conf.
pub const SERVICE: &str = "service:slurmctld.service";
pub const RECONFIGURED: &str = "command:slurm reconfigured";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let spec = context.spec;
    let mut slurmctld = service(UNIT, &["file:/etc/kiln/slurmctld-restart", munge::KEY_ID]).needs(SLURM_CONF);
    slurmctld.restart_on.extend(other_files::restart_ids(spec));
    slurmctld.restart_on.extend(rest::key_id(spec));
    // Tells every slurmd of the new files as well.
    let mut reconfigured = command("slurm reconfigured", &["scontrol", "reconfigure"])
        .when_changed(&[SLURM_CONF, CGROUP_CONF])
        .retry(60);
    reconfigured.when_changed.extend(other_files::ids(spec, context.inventory));
    // As long as users have no accounts, slurmctld must not ask for them.
    for needs in [&mut slurmctld.needs, &mut reconfigured.needs] {
        needs.extend(slurm_accounts::id(spec));
    }
    let mut resources = SLURM.tree(STATE, 0o700).to_vec();
    resources.extend([
        // As long as Slurm refuses the new slurm.conf, slurmctld goes on with the old one, and the restart that the new
        // one calls for is yet to come.
        Resource::File(file("/etc/kiln/slurmctld-restart", &context.slurm.restart).needs(SLURM_CONF)),
        Resource::File(file(
            "/etc/systemd/system/slurmctld.service.d/kiln.conf",
            format!(
                "# Written by Kiln: after a reboot wait for the database and the state volume, and come back after a crash. Not with a\n\
                 # state that a restore has left half way.\n\
                 [Unit]\nAfter=slurmdbd.service\nRequiresMountsFor=/var/lib/state\n{}StartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=2\n",
                not_half_restored()
            ),
        )),
        Resource::Service(slurmctld),
        Resource::Command(reconfigured),
    ]);
    resources
}

fn health(_: &Spec, _: Role) -> Vec<Question> {
    vec![Question::new("slurmctld does not answer", &["scontrol", "ping"])]
}
