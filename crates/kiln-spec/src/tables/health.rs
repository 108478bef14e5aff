//! `[health]`: what Slurm's health check looks at on compute nodes.

use std::time::Duration;

use super::reconcile::at_least;
use super::role::commands;
use crate::diagnostic::Findings;
use crate::written::table::table;
use crate::written::{At, Choice, List, Text};
use crate::{Health, HealthPart};

table! {
    /// What Slurm's health check looks at on compute nodes.
    HealthTable {
        /// Time between two checks of a node, 5 s or more: Slurm's `HealthCheckInterval`.
        "every" => every: Text, default "1m";
        /// Commands of the site that must succeed, each a line for `sh`, run as root at every check with 15 s to end. A node on which one of them fails is drained; the last line that it prints becomes the reason.
        "commands" => commands: List<Text>, empty;
        /// What is not looked at: `bundle`, `clock`, `gpus`, `mounts`, `services`, `size` (CPUs and memory) or `space`.
        "off" => off: List<At<HealthPart>>, empty;
    }
}

impl Choice for HealthPart {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("bundle", HealthPart::Bundle),
        ("clock", HealthPart::Clock),
        ("gpus", HealthPart::Gpus),
        ("mounts", HealthPart::Mounts),
        ("services", HealthPart::Services),
        ("size", HealthPart::Size),
        ("space", HealthPart::Space),
    ];
}

/// slurmctld pings nodes between two checks: with less time it comes to no ping, and a node that was drained stays "not responding".
const SHORTEST: Duration = Duration::from_secs(5);

pub(crate) fn validate(written: &HealthTable, findings: &mut Findings<'_>) -> Health {
    Health {
        every: at_least("`every`", &written.every, SHORTEST, findings),
        off: written.off.value.iter().map(|part| part.value).collect(),
        commands: commands(Some(&written.commands), findings),
    }
}
