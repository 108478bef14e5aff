//! A plan in words, for an administrator to read before saying yes.

use std::fmt;

use kiln_cloud::VolumeStatus;
use kiln_spec::hostlist;

use crate::plan::{Action, Plan};

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fold = |nodes: &[String]| hostlist::fold(nodes.iter().map(String::as_str));
        match self {
            Action::BuildImage { image } => write!(f, "+ image {image}: build"),
            Action::CreateNetwork { name, lacks: Some(part), .. } => {
                write!(f, "~ network {name}: make its {}, which is missing", part.word())
            }
            Action::CreateNetwork { name, cidr, lacks: None } => {
                write!(f, "+ network {name} ({})", cidr.as_deref().unwrap_or("a free subnet"))
            }
            Action::KeepAddresses { network, automatic } => write!(
                f,
                "~ network {network}: addresses from {} to {} are the cloud's to give, the others are kept for nodes",
                automatic.first, automatic.last
            ),
            Action::CreateSecurityGroup { name, login, unfinished } => {
                let purpose = if *login {
                    "SSH from anywhere"
                } else {
                    "the cluster's own nodes, SSH from its network"
                };
                match unfinished {
                    false => write!(f, "+ security group {name} ({purpose})"),
                    true => write!(f, "~ security group {name}: let in what is missing ({purpose})"),
                }
            }
            Action::CreateVolume { name, size_gib, status } => match status {
                Some(VolumeStatus::Error) => {
                    write!(f, "- volume {name}: the cloud says error; deleted and made anew ({size_gib} GiB)")
                }
                Some(_) => write!(f, "~ volume {name}: wait until the cloud has made it"),
                None => write!(f, "+ volume {name} ({size_gib} GiB)"),
            },
            Action::CreateInstances { group, nodes, image } => {
                write!(f, "+ {group}: create {} from {image} ({})", fold(nodes), count(nodes))
            }
            Action::RebuildInstances { group, nodes, from, to } => {
                write!(f, "~ {group}: rebuild {} in place, {from} -> {to} ({})", fold(nodes), count(nodes))
            }
            Action::LeaveToSlurm { group, nodes, there: true, .. } => {
                let (count, nodes) = (count(nodes), fold(nodes));
                write!(f, "= {group}: images are Slurm's to change from now on ({count}): {nodes}")
            }
            Action::LeaveToSlurm { group, nodes, image, there: false } => {
                write!(
                    f,
                    "= {group}: image change left to Slurm ({}): {} -> {image}",
                    count(nodes),
                    fold(nodes)
                )
            }
            Action::StartInstances { group, nodes } => {
                write!(f, "~ {group}: start {} ({})", fold(nodes), count(nodes))
            }
            Action::DeleteInstances { group, nodes, reason, .. } => {
                let jobs = if group.starts_with("compute.") { " with the jobs on them" } else { "" };
                write!(f, "- {group}: delete {} ({}){jobs}, {reason}", fold(nodes), count(nodes))
            }
        }
    }
}

fn count(nodes: &[String]) -> String {
    if nodes.len() == 1 { "1 node".to_string() } else { format!("{} nodes", nodes.len()) }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_empty(), self.notes.is_empty()) {
            (true, true) => {
                write!(f, "Cluster {}: the cloud has what the file says. Nothing to do.", self.cluster)?;
            }
            (true, false) => write!(f, "Cluster {}: nothing to do for `apply`, but:", self.cluster)?,
            (false, _) => write!(f, "Plan for cluster {}:", self.cluster)?,
        }
        let actions = self.actions.iter().map(ToString::to_string);
        let notes = self.notes.iter().map(|note| format!("! {note}"));
        actions.chain(notes).try_for_each(|line| write!(f, "\n  {line}"))
    }
}
