//! The resources of each role, in the order in which they are applied.

use kiln_spec::{Role, Spec, Volume};

use crate::accounting;
use crate::bundle::{EVERYTHING, Resource};
use crate::common;
use crate::fleet;
use crate::inputs::{Inventory, Secrets};
use crate::make::{command, directory, file, service};
use crate::slurm_conf::{STATE, SlurmConf, cgroup_conf};
use crate::slurm_files;
use crate::storage;

/// Where the share is on every node.
pub const SHARE: &str = "/srv/kiln/share";

const SLURM_CONF: &str = "file:/etc/slurm/slurm.conf";

/// Names of the cluster's volumes in the cloud.
pub fn volume_name(spec: &Spec, purpose: &str) -> String {
    let own = match purpose {
        "state" => Some(&spec.volumes.state),
        "home" => Some(&spec.volumes.home),
        _ => None,
    };
    match own {
        Some(Volume::Attach { name }) => name.clone(),
        _ => format!("{}-{purpose}", spec.name),
    }
}

pub fn control(spec: &Spec, inventory: &Inventory, secrets: &Secrets, slurm: &SlurmConf) -> Vec<Resource> {
    let mut resources = vec![common::hosts(spec, inventory), common::known_hosts(spec, inventory)];
    resources.extend(common::journal());
    resources.extend(storage::state(spec, inventory));
    resources.extend(storage::home(spec, inventory, Role::Control));
    resources.push(storage::volume(spec, inventory, "share", SHARE));
    resources.extend(storage::exports(spec, inventory));
    resources.extend([
        directory("/srv/kiln/share/bundles", "root", 0o755),
        directory(STATE, "slurm", 0o700),
        directory("/etc/slurm", "root", 0o755),
    ]);
    resources.extend(common::munge(secrets));
    resources.extend(common::users(spec, true));
    resources.extend(common::sshd());
    // Here is their place; that they take the place of Kiln's own is settled where they come again, among the extras.
    resources.extend(slurm_files::resources(spec));
    // Before slurmdbd: sacctmgr asks this file where slurmdbd is.
    resources.extend([
        slurm_conf_file(slurm),
        Resource::File(file("/etc/slurm/cgroup.conf", cgroup_conf(spec, inventory))),
    ]);
    resources.extend(accounting::resources(spec, inventory, secrets));
    resources.extend(fleet::before_slurmctld(spec, secrets));
    let mut slurmctld =
        service("slurmctld.service", &["file:/etc/kiln/slurmctld-restart", "file:/etc/munge/munge.key"])
            .needs(SLURM_CONF);
    slurmctld.restart_on.extend(slurm_files::restart_ids(spec));
    // Tells every slurmd of the new files as well.
    let mut reconfigured = command("slurm reconfigured", &["scontrol", "reconfigure"])
        .when_changed(&[SLURM_CONF, "file:/etc/slurm/cgroup.conf"])
        .retry(60);
    reconfigured.when_changed.extend(slurm_files::ids(spec));
    resources.extend([
        // As long as Slurm refuses the new slurm.conf, slurmctld goes on with the old one, and the restart that the new
        // one calls for is yet to come.
        Resource::File(file("/etc/kiln/slurmctld-restart", &slurm.restart).needs(SLURM_CONF)),
        Resource::File(file(
            "/etc/systemd/system/slurmctld.service.d/kiln.conf",
            "# Written by Kiln: after a reboot wait for the database and the state volume, and come back after a crash.\n\
             [Unit]\nAfter=slurmdbd.service\nRequiresMountsFor=/var/lib/state\nStartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=2\n",
        )),
        Resource::Service(storage::resident(spec, slurmctld)),
        Resource::Command(reconfigured),
    ]);
    resources.extend(accounting::account_of_slurm(spec));
    resources.extend(fleet::kilnd(spec, inventory));
    resources.extend(common::extras(spec, Role::Control));
    resources
}

pub fn login(spec: &Spec, inventory: &Inventory, secrets: &Secrets, slurm: &SlurmConf) -> Vec<Resource> {
    let mut resources = vec![common::hosts(spec, inventory), common::known_hosts(spec, inventory)];
    resources.extend(common::journal());
    resources.extend(storage::home(spec, inventory, Role::Login));
    resources.extend(common::munge(secrets));
    resources.extend(common::users(spec, spec.volumes.home == Volume::None));
    resources.extend(common::sshd());
    resources.push(common::limits());
    resources.push(slurm_conf_file(slurm));
    resources.extend(common::extras(spec, Role::Login));
    resources
}

pub fn compute(spec: &Spec, inventory: &Inventory, secrets: &Secrets, slurm: &SlurmConf) -> Vec<Resource> {
    let mut resources = vec![common::hosts(spec, inventory), common::known_hosts(spec, inventory)];
    resources.extend(common::journal());
    resources.extend(storage::home(spec, inventory, Role::Compute));
    resources.extend(common::munge(secrets));
    resources.extend(common::users(spec, spec.volumes.home == Volume::None));
    resources.push(Resource::File(file("/etc/pam.d/sshd", PAM_SSHD)));
    resources.extend(common::sshd());
    resources.push(common::limits());
    resources.extend(common::extras(spec, Role::Compute));
    resources.extend([
        directory("/var/spool/slurmd", "root", 0o755),
        Resource::File(file(
            "/etc/default/slurmd",
            format!("# Written by Kiln.\nSLURMD_OPTIONS=\"--conf-server {}:6817\"\n", spec.control.node),
        )),
        Resource::File(file(
            "/etc/kiln/slurmd-restart",
            slurm.slurmd_restart.clone() + &slurm_files::slurmd_restart(spec),
        )),
        Resource::File(file(
            "/etc/systemd/system/slurmd.service.d/kiln.conf",
            "# Written by Kiln: the configuration comes from slurmctld, and while slurmctld is away slurmd keeps asking.\n\
             [Unit]\nConditionPathExists=\nStartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=1\n",
        )),
    ]);
    let mut slurmd = service(
        "slurmd.service",
        &[
            "file:/etc/default/slurmd",
            "file:/etc/kiln/slurmd-restart",
            "file:/etc/munge/munge.key",
            "file:/etc/systemd/system/slurmd.service.d/kiln.conf",
        ],
    );
    // Started once all of the bundle is applied, never by systemd alone: a node that could not be configured must not
    // join. A slurmd that runs already goes on, with its jobs.
    slurmd = slurmd.needs(EVERYTHING);
    slurmd.enabled = false;
    resources.push(Resource::Service(slurmd));
    resources.extend(slurm_files::counted(spec));
    resources
}

/// Slurm reads the new file before it takes the old one's place: with a parameter it does not know, none of its commands
/// would start any more.
fn slurm_conf_file(slurm: &SlurmConf) -> Resource {
    let mut conf = file("/etc/slurm/slurm.conf", &slurm.text);
    conf.check =
        ["env", "SLURM_CONF={}", "scontrol", "show", "hostnames", "localhost"].map(String::from).to_vec();
    Resource::File(conf)
}

/// Only root and users with a job on the node get in.
const PAM_SSHD: &str = "# Written by Kiln.
@include common-auth
account required pam_nologin.so
account required pam_slurm.so
@include common-account
session required pam_loginuid.so
session optional pam_keyinit.so force revoke
@include common-session
session required pam_limits.so
session required pam_env.so
@include common-password
";
