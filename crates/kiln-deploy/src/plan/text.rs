//! A plan in words, for an administrator to read before saying yes.

use std::fmt;

use kiln_cloud::{Peers, VolumeStatus};
use kiln_spec::hostlist;

use super::Plan;
use super::action::{Action, HeldNode, Instances, OfNode};
use crate::slurm_view::JobOnNodes;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::BuildImage { image } => write!(f, "+ image {image}: build"),
            Action::CreateNetwork { name, lacks: Some(part), .. } => {
                write!(f, "~ network {name}: create its missing {}", part.word())
            }
            Action::CreateNetwork { name, cidr, lacks: None, .. } => {
                let subnet = cidr.map_or_else(|| "a free subnet".to_string(), |cidr| cidr.to_string());
                write!(f, "+ network {name} ({subnet})")
            }
            Action::KeepAddresses { network, automatic, .. } => {
                let ranges: Vec<String> =
                    automatic.iter().map(|range| format!("from {} to {}", range.first, range.last)).collect();
                let ranges = ranges.join(", ");
                write!(
                    f,
                    "~ network {network}: addresses {ranges} are assigned by the cloud, the others are reserved for nodes"
                )
            }
            Action::CreateSecurityGroup { name, login, unfinished, rules, closed } => {
                let purpose = match login {
                    true => format!("SSH from {}", from(rules.iter().filter_map(|r| r.from.clone().known()))),
                    false => {
                        let others = |what: &str, port: u16| {
                            let rules = rules.iter().filter(|r| r.tcp_port == Some(port));
                            let others: Vec<_> = rules.filter_map(|r| r.from.clone().known()).collect();
                            match others.as_slice() {
                                [] => String::new(),
                                _ => format!(", {what} from {}", from(others.into_iter())),
                            }
                        };
                        let slurmdbd = others("slurmdbd", kiln_site::SLURMCTLD_PORT);
                        let dashboard = others("the dashboard", kiln_wire::dashboard::TLS_PORT);
                        format!("the cluster's own nodes, SSH from its network{slurmdbd}{dashboard}")
                    }
                };
                match (unfinished, closed.as_slice()) {
                    (false, _) => write!(f, "+ security group {name} ({purpose})"),
                    (true, []) => write!(f, "~ security group {name}: add its missing rules ({purpose})"),
                    (true, closed) => {
                        let before = from(closed.iter().map(|rule| rule.from));
                        let what = if *login { "" } else { "the dashboard " };
                        write!(f, "~ security group {name}: {purpose}, {what}no longer from {before}")
                    }
                }
            }
            Action::CreateVolume { name, size_gib, status } => match status {
                Some(VolumeStatus::Error) => {
                    write!(
                        f,
                        "- volume {name}: the cloud could not create it; deleted and recreated ({size_gib} GiB)"
                    )
                }
                Some(_) => write!(f, "~ volume {name}: wait until the cloud has created it"),
                None => write!(f, "+ volume {name} ({size_gib} GiB)"),
            },
            Action::CreateFileSystem { name, there: true } => {
                write!(f, "~ file system {name}: wait until the cloud has created it")
            }
            Action::CreateFileSystem { name, there: false } => write!(f, "+ file system {name}"),
            Action::ExportFileSystems { file_systems, .. } => {
                let names: Vec<&str> = file_systems.iter().map(|export| export.name.as_str()).collect();
                write!(f, "~ file systems: export {} to the nodes", names.join(", "))
            }
            Action::GrowVolume { name, from_gib, size_gib, .. } => {
                write!(f, "~ volume {name}: extend, {from_gib} -> {size_gib} GiB")
            }
            Action::Adopt { resources } => {
                let names: Vec<&str> = resources.iter().map(|r| r.name.as_str()).collect();
                write!(f, "= mark what has no id yet as this cluster's: {}", names.join(", "))
            }
            Action::NoteControl { address, .. } => {
                write!(f, "= control: its address {address} is kept for it")
            }
            Action::CreateInstances { group, image, instances } => {
                write!(f, "+ {group}: create {} from {image} ({})", fold(instances), count(instances))
            }
            Action::RebuildInstances { group, from, to, instances } => {
                write!(
                    f,
                    "~ {group}: rebuild {} in place, {from} -> {to} ({})",
                    fold(instances),
                    count(instances)
                )
            }
            Action::UpgradeControl(upgrade) => upgrade.fmt(f),
            Action::LeaveToSlurm { group, there: true, instances, .. } => {
                let (count, nodes) = (count(instances), fold(instances));
                write!(f, "= {group}: image changes are left to Slurm from now on ({count}): {nodes}")
            }
            Action::LeaveToSlurm { group, image, there: false, instances, .. } => {
                write!(
                    f,
                    "= {group}: image change left to Slurm ({}): {} -> {image}",
                    count(instances),
                    fold(instances)
                )
            }
            Action::StartInstances { group, instances } => {
                write!(f, "~ {group}: start {} ({})", fold(instances), count(instances))
            }
            Action::DrainInstances { group, reason, instances } => drain(f, group, reason, instances),
            Action::PowerDownInstances { group, reason, now: true, jobs, instances } => {
                let jobs = if jobs.is_empty() { String::new() } else { format!(" with {}", job_ids(jobs)) };
                let (nodes, count) = (fold(instances), count(instances));
                write!(f, "- {group}: Slurm powers down {nodes} ({count}) at once{jobs}, {reason}")
            }
            Action::PowerDownInstances { group, reason, instances, .. } => write!(
                f,
                "- {group}: Slurm powers down {} ({}) when their jobs have ended, {reason}",
                fold(instances),
                count(instances)
            ),
            Action::DeleteInstances { group, reason, jobs, instances } => {
                let jobs = match jobs {
                    None if group.starts_with("compute.") => " with the jobs on them".to_string(),
                    Some(jobs) if !jobs.is_empty() => format!(" with {}", job_ids(jobs)),
                    _ => String::new(),
                };
                write!(f, "- {group}: delete {} ({}){jobs}, {reason}", fold(instances), count(instances))
            }
        }
    }
}

/// "192.0.2.0/24, 198.51.100.0/24", or "anywhere".
fn from(peers: impl Iterator<Item = Peers>) -> String {
    let word = |peers: Peers| match peers {
        Peers::Net(net) if net.prefix_len() == 0 => "anywhere".to_string(),
        peers => peers.into(),
    };
    peers.map(word).collect::<Vec<_>>().join(", ")
}

fn drain(
    f: &mut fmt::Formatter<'_>,
    group: &str,
    reason: &str,
    instances: &Instances<HeldNode>,
) -> fmt::Result {
    let (nodes, count) = (fold(instances), count(instances));
    let unknown = instances.0.iter().find_map(|node| node.unknown.as_ref());
    if let Some(why) = unknown {
        return write!(f, "= {group}: {nodes} ({count}) stays until Slurm can be asked, {reason}: {why}");
    }
    let mut jobs: Vec<JobOnNodes> = instances.0.iter().flat_map(|node| node.jobs.iter().cloned()).collect();
    jobs.sort();
    jobs.dedup();
    let held = if jobs.is_empty() { String::new() } else { format!("; {} there now", job_ids(&jobs)) };
    write!(f, "- {group}: drain {nodes} ({count}), then delete, {reason}{held}")
}

/// `job 17`, `jobs 17, 18`.
fn job_ids(jobs: &[JobOnNodes]) -> String {
    let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    format!("{} {}", if ids.len() == 1 { "job" } else { "jobs" }, ids.join(", "))
}

fn fold<T: OfNode>(instances: &Instances<T>) -> String {
    hostlist::fold(instances.nodes())
}

fn count<T>(instances: &Instances<T>) -> String {
    match instances.0.len() {
        1 => "1 node".to_string(),
        many => format!("{many} nodes"),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_empty(), self.notes.is_empty() && self.accounts.is_empty()) {
            (true, true) => {
                write!(f, "Cluster {}: the cloud has what the file says. Nothing to do.", self.cluster)?;
            }
            (true, false) => write!(f, "Cluster {}: nothing to do for `apply`, but:", self.cluster)?,
            (false, _) => write!(f, "Plan for cluster {}:", self.cluster)?,
        }
        let actions = self.actions.iter().map(ToString::to_string);
        let notes = self.notes.iter().chain(&self.accounts).map(|note| format!("! {note}"));
        let software = self.software.iter().map(|change| format!("* {change}"));
        actions.chain(notes).chain(software).try_for_each(|line| write!(f, "\n  {line}"))
    }
}
