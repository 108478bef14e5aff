//! Files in `/etc/slurm` on control that Slurm reads beside slurm.conf: the site's own, `job_submit.lua` and the like, and gres.conf and
//! topology.conf, which Kiln writes where the site does not.

use std::fmt::Write as _;

use kiln_spec::{ExtraFile, Role, Spec};
use sha2::{Digest as _, Sha256};

use kiln_wire::Resource;
use kiln_wire::make::{command, file};

use super::{gres, topology};
use crate::inputs::Inventory;
use crate::services::site_file;

const DIRECTORY: &str = "/etc/slurm/";

/// What slurmctld hands out to slurmd, which reads most of it only when it starts.
const HANDED_OUT: &[&str] = &[
    "acct_gather.conf",
    "cgroup.conf",
    "gres.conf",
    "helpers.conf",
    "job_container.conf",
    "mpi.conf",
    "oci.conf",
    "plugstack.conf",
    "topology.conf",
];

fn files(spec: &Spec) -> impl Iterator<Item = (&str, &ExtraFile)> {
    let files = spec.roles.of(Role::Control).files.iter();
    files.filter_map(|file| Some((file.path.strip_prefix(DIRECTORY)?, file)))
}

/// gres.conf and topology.conf by Kiln, where the site has none of its own: names and texts.
fn written(spec: &Spec, inventory: &Inventory) -> Vec<(&'static str, String)> {
    let all = [
        ("gres.conf", gres::gres_conf(spec, inventory)),
        ("topology.conf", topology::topology_conf(spec, inventory)),
    ];
    let is_own = |name: &str| files(spec).any(|(own, _)| own == name);
    all.into_iter().filter(|(name, _)| !is_own(name)).filter_map(|(name, text)| Some((name, text?))).collect()
}

/// Those that Kiln writes.
pub fn own(spec: &Spec, inventory: &Inventory) -> Vec<Resource> {
    let path = |name: &str| format!("{DIRECTORY}{name}");
    written(spec, inventory).into_iter().map(|(name, text)| Resource::File(file(path(name), text))).collect()
}

/// What Slurm's commands read where they run, besides what slurmd is given too.
const READ_BY_COMMANDS: &[&str] = &["cli_filter.lua", "plugstack.conf.d/"];

/// The files of control that login nodes need as well: they have slurm.conf, so that nothing is fetched from slurmctld.
pub fn for_login(spec: &Spec) -> Vec<Resource> {
    let is_read = |name: &str| {
        HANDED_OUT.contains(&name)
            || READ_BY_COMMANDS.iter().any(|own| name == *own || own.ends_with('/') && name.starts_with(own))
    };
    files(spec).filter(|(name, _)| is_read(name)).map(|(_, file)| site_file(file)).collect()
}

/// To be written before anything reads slurm.conf, which may call for them.
pub fn resources(spec: &Spec) -> Vec<Resource> {
    files(spec).map(|(_, file)| site_file(file)).collect()
}

/// Stands for those that were removed.
const REMOVED: &str = "directory:/etc/slurm";

/// Whatever changed among them, slurmctld must be told, and tells every slurmd.
pub fn ids(spec: &Spec, inventory: &Inventory) -> Vec<String> {
    let ids = files(spec).map(|(_, file)| site_file(file).id());
    let ids = ids.chain(own(spec, inventory).into_iter().map(|file| file.id()));
    ids.chain([REMOVED.to_string()]).collect()
}

/// Those that slurmctld may read only when it starts. Scripts it reads whenever it runs them.
pub fn restart_ids(spec: &Spec) -> Vec<String> {
    let is_configuration = |name: &str| {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        matches!(ending, Some("conf" | "yaml")) && name != "slurmdbd.conf"
    };
    let ids = files(spec).filter(|(name, _)| is_configuration(name)).map(|(_, file)| site_file(file).id());
    ids.chain([REMOVED.to_string()]).collect()
}

/// Changes when slurmd must be restarted: what it gets, by name and digest, and its own GPUs.
pub fn slurmd_restart(spec: &Spec, node: &str, inventory: &Inventory) -> String {
    let given = files(spec).filter(|(name, _)| HANDED_OUT.contains(name));
    let mut text = given.fold(String::new(), |mut text, (name, file)| {
        let sum = hex::encode(Sha256::digest(&file.content));
        let _ = writeln!(text, "{name} {sum}");
        text
    });
    if let Some(line) = gres::line_of(spec, node, inventory) {
        let _ = writeln!(text, "gpus {line}");
    }
    text
}

/// A slurmd that was not restarted yet reports too few devices to a slurmctld that was, and has its node drained. Slurm
/// does not take that back when the number is right.
pub fn counted(spec: &Spec, node: &str, inventory: &Inventory) -> Option<Resource> {
    const UNDRAIN: &str = r#"
node=$(hostname --short)
record=$(scontrol show node --oneliner "$node") || exit 0
case $record in *Reason=gres/*\ count\ reported\ lower\ than\ configured*) ;; *) exit 0 ;; esac
case $record in *INVALID_REG*) echo "${record##*Reason=}" >&2; exit 1 ;; esac
scontrol update nodename="$node" state=resume
"#;
    let counted = command("slurmd reports the devices", &["sh", "-c", UNDRAIN]);
    let counted =
        counted.when_changed(&["file:/etc/kiln/slurmd-restart"]).needs("service:slurmd.service").retry(30);
    (!slurmd_restart(spec, node, inventory).is_empty()).then_some(Resource::Command(counted))
}
