//! Files of a site that would take the place of those Kiln writes, or that have no place where they are put.

use crate::Role;
use crate::diagnostic::Findings;
use crate::written::Text;

/// What becomes of a site's file with such a path.
enum Rule {
    /// It cannot be; how to get there else.
    Never(&'static str),
    /// It is the site's choice, which comes at a price.
    Mind(&'static str),
    /// Nothing on these nodes reads it.
    Unread(&'static str),
}

/// A path, or everything below it if it ends in `/`; the roles whose nodes have it; the rule.
type Own = (&'static str, &'static [Role], Rule);

const DIRECTORY: Rule = Rule::Never("this directory is reserved for Kiln on every node");

/// slurmd gets its configuration from slurmctld.
const FROM_CONTROL: Rule = Rule::Unread("slurmd gets it from control: put it into [[role.control.file]]");

const OWN: &[Own] = &[
    ("/etc/kiln/", &Role::ALL, DIRECTORY),
    ("/var/lib/kiln/", &Role::ALL, DIRECTORY),
    (
        "/etc/slurm/slurm.conf",
        &Role::ALL,
        Rule::Never(
            "set its parameters in [slurm.config], those of nodes and partitions in `node_config` and `config`",
        ),
    ),
    (
        "/etc/munge/munge.key",
        &Role::ALL,
        Rule::Never("all nodes share one key; `kiln secrets rotate munge-key` creates a new one"),
    ),
    (
        "/etc/hosts",
        &Role::ALL,
        Rule::Mind("the nodes find each other through it; your file must name every node"),
    ),
    (
        "/etc/slurm/slurmdbd.conf",
        &[Role::Control],
        Rule::Mind("slurmdbd needs it to reach the accounting database"),
    ),
    (
        "/etc/ssh/sshd_config.d/kiln.conf",
        &Role::ALL,
        Rule::Mind("Kiln and the users log in according to this file"),
    ),
    ("/etc/ssh/kiln-keys/", &Role::ALL, Rule::Mind("Kiln and the users log in with these keys")),
    ("/etc/ssh/ssh_host_ed25519_key", &Role::ALL, Rule::Mind("Kiln identifies the node by this key")),
    ("/etc/slurm/cgroup.conf", &[Role::Compute], FROM_CONTROL),
    ("/etc/slurm/gres.conf", &[Role::Compute], FROM_CONTROL),
    ("/etc/slurm/topology.conf", &[Role::Compute], FROM_CONTROL),
    (
        "/etc/pam.d/sshd",
        &[Role::Compute],
        Rule::Mind("it prevents users without a job from logging in to compute nodes"),
    ),
];

pub(crate) fn check(path: &Text, role: Role, findings: &mut Findings<'_>) {
    let here = |(own, roles, _): &&Own| roles.contains(&role) && covers(own, &path.value);
    match OWN.iter().find(here) {
        None => {}
        Some((_, _, Rule::Never(hint))) => {
            let message = format!("`{}` is set by Kiln and cannot be changed", path.value);
            findings.error("own-file", path.span.clone(), message).expected("another path").hint(*hint);
        }
        Some((_, _, Rule::Mind(hint))) => {
            let message = format!("`{}` replaces a file that Kiln writes", path.value);
            findings.warning("own-file", path.span.clone(), message).hint(*hint);
        }
        Some((_, _, Rule::Unread(hint))) => {
            let message = format!("no program on {} nodes reads `{}`", role.as_str(), path.value);
            findings.warning("unread-file", path.span.clone(), message).hint(*hint);
        }
    }
}

/// What the end of a build removes, or what is not on the disk at all.
const NOT_IN_IMAGES: [&str; 8] =
    ["/tmp/", "/var/tmp/", "/var/log/", "/run/", "/root/.ssh/", "/dev/", "/proc/", "/sys/"];

/// A file of an image. What Kiln writes when it configures a node takes the place of it.
pub(crate) fn check_of_image(path: &Text, findings: &mut Findings<'_>) {
    if let Some(gone) = NOT_IN_IMAGES.iter().find(|directory| covers(directory, &path.value)) {
        let message = format!("`{}` would not be in the image: builds leave {gone} empty", path.value);
        findings.error("own-file", path.span.clone(), message).expected("another path");
    } else if let Some((_, _, Rule::Never(hint))) = OWN.iter().find(|(own, _, _)| covers(own, &path.value)) {
        let message = format!("`{}` is set by Kiln and cannot be changed", path.value);
        findings.error("own-file", path.span.clone(), message).expected("another path").hint(*hint);
    }
}

fn covers(own: &str, path: &str) -> bool {
    match own.strip_suffix('/') {
        Some(directory) => {
            path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        None => path == own,
    }
}
