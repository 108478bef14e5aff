//! A plan in words, for an administrator to read before saying yes.

use std::fmt;

use kiln_spec::hostlist;

use crate::plan::{Action, Plan};

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fold = |nodes: &[String]| hostlist::fold(nodes.iter().map(String::as_str));
        match self {
            Action::BuildImage { image } => write!(f, "+ image {image}: build"),
            Action::CreateNetwork { name, cidr } => {
                write!(f, "+ network {name} ({})", cidr.as_deref().unwrap_or("a free subnet"))
            }
            Action::CreateSecurityGroup { name, login: true } => {
                write!(f, "+ security group {name} (SSH from anywhere)")
            }
            Action::CreateSecurityGroup { name, login: false } => {
                write!(f, "+ security group {name} (the cluster's own nodes)")
            }
            Action::CreateVolume { name, size_gib } => write!(f, "+ volume {name} ({size_gib} GiB)"),
            Action::CreateInstances { group, nodes, image } => {
                write!(f, "+ {group}: create {} from {image} ({})", fold(nodes), count(nodes))
            }
            Action::RebuildInstances { group, nodes, from, to } => {
                write!(f, "~ {group}: rebuild {} in place, {from} -> {to} ({})", fold(nodes), count(nodes))
            }
            Action::LeaveToSlurm { group, nodes, image } => {
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
            Action::DeleteInstances { group, nodes, reason } => {
                write!(f, "- {group}: delete {} ({}), {reason}", fold(nodes), count(nodes))
            }
        }
    }
}

fn count(nodes: &[String]) -> String {
    if nodes.len() == 1 { "1 node".to_string() } else { format!("{} nodes", nodes.len()) }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "Cluster {}: the cloud has what the file says. Nothing to do.", self.cluster);
        }
        writeln!(f, "Plan for cluster {}:", self.cluster)?;
        let mut lines = self.actions.iter().peekable();
        while let Some(action) = lines.next() {
            write!(f, "  {action}")?;
            if lines.peek().is_some() {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
