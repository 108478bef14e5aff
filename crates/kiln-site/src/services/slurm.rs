//! Slurm's commands and the files they read. Compute nodes have no files: slurmd gets them from slurmctld.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{command, directory, file};

use super::accounting::PLACE_ID;
use super::{Context, Service};
use crate::service_users;
use crate::slurm_conf::{cgroup_conf, other_files};

pub const SLURM: Service = Service {
    name: "slurm",
    software: |_| &["slurm-client"],
    users: &[service_users::SLURM],
    leftovers: &["/etc/slurm/slurm.conf"],
    resources,
    health,
    ..Service::EMPTY
};

pub const SLURM_CONF: &str = "file:/etc/slurm/slurm.conf";
pub const CGROUP_CONF: &str = "file:/etc/slurm/cgroup.conf";

/// Slurm 22.05 opens the library for `srun --mpi=pmix` by a name that systems have in the development package only. Given the
/// word `check`, it fails where that name is missing.
fn name_pmix(libraries: &str) -> String {
    format!(
        "for library in {libraries}; do \
         [ -e $library ] && [ ! -e ${{library%.2}} ] || continue; \
         [ \"$1\" != check ] || exit 1; ln -s libpmix.so.2 ${{library%.2}}; done"
    )
}

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let mut resources = files(context);
    let script = name_pmix(context.family.paths.pmix);
    let name = |word| ["sh", "-c", &script, "sh", word];
    resources.push(Resource::Command(command("pmix-library", &name("name")).unless(&name("check"))));
    resources
}

fn files(context: &Context<'_>) -> Vec<Resource> {
    match context.role {
        Role::Compute => Vec::new(),
        // A file that the login role has itself comes later, and replaces control's.
        Role::Login => {
            let mut resources = other_files::own(context.spec, context.inventory);
            resources.extend(other_files::for_login(context.spec));
            resources.push(slurm_conf(context));
            resources
        }
        Role::Control => {
            let mut resources = vec![directory("/etc/slurm", "root", 0o755)];
            // The site's files stand here, before slurm.conf, which may call for them. They come again among all files
            // of the site, where they replace Kiln's own.
            resources.extend(other_files::resources(context.spec));
            resources.extend(other_files::own(context.spec, context.inventory));
            let cgroup = file("/etc/slurm/cgroup.conf", cgroup_conf(context.spec, context.inventory));
            resources.extend([slurm_conf(context), Resource::File(cgroup)]);
            resources
        }
    }
}

/// Slurm reads the new file before it takes the old one's place: with a parameter it does not know, none of its commands
/// would start any more.
fn slurm_conf(context: &Context<'_>) -> Resource {
    let mut conf = file("/etc/slurm/slurm.conf", &context.slurm.text);
    if context.role == Role::Control {
        // As long as the state belongs to other accounts, slurmctld goes on with them.
        conf = conf.needs(PLACE_ID);
    }
    conf.check =
        ["env", "SLURM_CONF={}", "scontrol", "show", "hostnames", "localhost"].map(String::from).to_vec();
    Resource::File(conf)
}

/// On control slurmctld is asked itself, and Slurm asks the slurmd of a compute node.
fn health(_: &Spec, role: Role) -> Vec<Question> {
    let ping = Question::new("Slurm's commands get no answer", &["scontrol", "ping"]);
    if role == Role::Login { vec![ping] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use kiln_distro::Family;

    use super::*;

    #[test]
    fn the_library_of_pmix_gets_the_name_that_slurm_opens_it_by() {
        // Where each family has it.
        for (family, folder) in [("debian", "usr/lib/x86_64-linux-gnu/pmix2/lib"), ("el", "usr/lib64")] {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let at = format!("{}/usr/", root.path().display());
            let script = name_pmix(&Family::named(family).unwrap().paths.pmix.replace("/usr/", &at));
            let run =
                |word: &str| Command::new("sh").args(["-c", &script, "sh", word]).status().unwrap().success();
            assert!(run("check"), "{family}: without the library there is nothing to do");
            std::fs::write(folder.join("libpmix.so.2"), "").unwrap();
            assert!(!run("check") && run("name") && run("check"), "{family}");
            assert!(folder.join("libpmix.so").exists(), "{family}");
        }
    }
}
