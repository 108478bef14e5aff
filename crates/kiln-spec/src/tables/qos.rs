//! `[qos.NAME]`: a quality of service of Slurm's.

use std::collections::BTreeMap;

use super::account::check_qos;
use crate::Qos;
use crate::diagnostic::Findings;
use crate::nearest::did_you_mean;
use crate::slurm_limits::{LimitKind, QOS_FLAGS, QOS_LIMITS};
use crate::validate::names::{check_one_line, in_lower_case};
use crate::words::or_list;
use crate::written::table::table;
use crate::written::{At, Choice, List, Named, Scalar, Text};

table! {
    /// A quality of service: priority and limits that jobs ask for by name, or that a partition has.
    QosTable {
        /// What it is for, in words. Slurm turns them into lower case.
        "description" => description: Text, otherwise "its name";
        /// What it adds to the priority of a job, where `PriorityWeightQOS` is set.
        "priority" => priority: At<i64>, default 0;
        /// Limits in Slurm's own words: `{ MaxJobsPerUser = 4, MaxTRESPerUser = "cpu=64,mem=256G", MaxWallDurationPerJob = "1-00:00:00" }`.
        "limits" => limits: Named<Scalar>, empty;
        /// Slurm's flags, such as `DenyOnLimit`: a job over a limit is refused instead of waiting.
        "flags" => flags: List<Text>, empty;
        /// QOS whose jobs may be preempted for jobs of this one. `PreemptType` in `[slurm.config]` has to allow it.
        "preempt" => preempt: List<Text>, empty;
        /// What happens to jobs of this QOS that are preempted.
        "preempt_mode" => preempt_mode: At<PreemptMode>, otherwise "`PreemptMode` of slurm.conf";
        /// How many seconds a job of this QOS has left when it is preempted.
        "grace_time" => grace_time: At<i64>, default 0;
        /// What usage of its jobs counts, e.g. `"0.5"` or `2`.
        "usage_factor" => usage_factor: Scalar, otherwise "1";
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum PreemptMode {
    Off,
    Cancel,
    Requeue,
    Suspend,
}

impl Choice for PreemptMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", PreemptMode::Off),
        ("cancel", PreemptMode::Cancel),
        ("requeue", PreemptMode::Requeue),
        ("suspend", PreemptMode::Suspend),
    ];
}

impl PreemptMode {
    fn word(self) -> &'static str {
        match self {
            PreemptMode::Off => "off",
            PreemptMode::Cancel => "cancel",
            PreemptMode::Requeue => "requeue",
            PreemptMode::Suspend => "suspend",
        }
    }
}

/// Slurm makes it with its database.
pub(crate) const NORMAL: &str = "normal";

pub(crate) fn validate(written: &Named<QosTable>, findings: &mut Findings<'_>) -> Vec<Qos> {
    written.iter().map(|(name, table)| qos(name, table, written, findings)).collect()
}

fn qos(name: &Text, table: &QosTable, all: &Named<QosTable>, findings: &mut Findings<'_>) -> Qos {
    check_accounting_name("a QOS", name, findings);
    if let Some(text) = &table.description {
        check_text(text, findings);
    }
    for other in &table.preempt.value {
        check_qos(other, all, findings);
        if other.value == name.value {
            let message = format!("QOS `{}` cannot preempt its own jobs", name.value);
            findings.error("bad-value", other.span.clone(), message).expected("other QOS");
        }
    }
    Qos {
        name: name.value.clone(),
        // Slurm's own has words of its own.
        description: match (&table.description, name.value.as_str()) {
            (Some(text), _) => Some(text.value.clone()),
            (None, NORMAL) => None,
            (None, name) => Some(name.to_owned()),
        },
        priority: number("priority", &table.priority, findings),
        flags: table.flags.value.iter().filter_map(|flag| known_flag(flag, findings)).collect(),
        preempt: table.preempt.value.iter().map(|other| other.value.clone()).collect(),
        preempt_mode: table.preempt_mode.as_ref().map(|mode| mode.value.word().to_owned()),
        grace_time: number("grace_time", &table.grace_time, findings),
        usage_factor: table.usage_factor.as_ref().and_then(|factor| usage_factor(factor, findings)),
        limits: check_limits(&table.limits, QOS_LIMITS, findings),
    }
}

fn number(key: &str, written: &At<i64>, findings: &mut Findings<'_>) -> u32 {
    let number = u32::try_from(written.value).ok().filter(|number| *number < i32::MAX as u32);
    number.unwrap_or_else(|| {
        let message = format!("`{key}` cannot be {}", written.value);
        (findings.error("out-of-range", written.span.clone(), message))
            .expected(format!("0 to {}", i32::MAX - 1));
        0
    })
}

fn known_flag(flag: &Text, findings: &mut Findings<'_>) -> Option<String> {
    let known = QOS_FLAGS.iter().find(|known| known.eq_ignore_ascii_case(&flag.value));
    if known.is_none() {
        let message = format!("a QOS has no flag `{}`", flag.value);
        (findings.error("unknown-value", flag.span.clone(), message))
            .expected(or_list(QOS_FLAGS))
            .maybe_hint(did_you_mean(&flag.value, QOS_FLAGS.iter().copied()));
    }
    known.map(|flag| (*flag).to_owned())
}

/// As Slurm prints it, with six decimals.
fn usage_factor(Scalar(text): &Scalar, findings: &mut Findings<'_>) -> Option<String> {
    let plain = text.value.chars().all(|c| c.is_ascii_digit() || c == '.');
    let factor = text.value.parse::<f64>().ok().filter(|factor| plain && *factor < 1e6);
    if factor.is_none() {
        let message = format!("`{}` is not a factor", text.value);
        findings.error("bad-value", text.span.clone(), message).expected("a number such as \"0.5\" or 2");
    }
    factor.map(|factor| format!("{factor:.6}"))
}

/// Limits by their name in Slurm's own spelling, with values in the one form that can be compared.
pub(super) fn check_limits(
    written: &Named<Scalar>,
    known: &[(&'static str, LimitKind)],
    findings: &mut Findings<'_>,
) -> BTreeMap<String, String> {
    let mut limits: BTreeMap<String, String> = BTreeMap::new();
    for (key, Scalar(value)) in written {
        let Some((name, kind)) = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key.value)) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let message = format!("there is no limit `{}` here", key.value);
            (findings.error("unknown-limit", key.span.clone(), message))
                .expected(or_list(&names))
                .maybe_hint(did_you_mean(&key.value, names.iter().copied()));
            continue;
        };
        let Some(canonical) = kind.canonical(&value.value) else {
            let message = format!("`{}` is not a value of {name}", value.value);
            findings.error("bad-limit", value.span.clone(), message).expected(kind.expected());
            continue;
        };
        if limits.insert((*name).to_owned(), canonical).is_some() {
            let message = format!("`{name}` is there twice");
            findings.error("duplicate-key", key.span.clone(), message).expected("each limit once");
        }
    }
    limits
}

/// Slurm turns names into lower case, and reads commas, quotes and signs in lists of them.
pub(super) fn check_accounting_name(kind: &str, name: &Text, findings: &mut Findings<'_>) {
    if !is_accounting_name(&name.value) {
        let message = format!("`{}` cannot be the name of {kind}", name.value);
        (findings.error("bad-name", name.span.clone(), message))
            .expected(
                "a lower-case letter or digit, then lower-case letters, digits, `_`, `-` or `.`, at most 63",
            )
            .maybe_hint(in_lower_case(&name.value, is_accounting_name));
    }
}

fn is_accounting_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 63
        && name.starts_with(plain)
        && name.chars().all(|c| plain(c) || matches!(c, '_' | '-' | '.'))
        && !matches!(name, "all" | "default" | "none")
}

/// Words that `sacctmgr` takes and prints as they are, but for their case.
pub(super) fn check_text(text: &Text, findings: &mut Findings<'_>) {
    if check_one_line("the text", text, findings) && text.value.contains(['"', '\'', '`', '|', '\\']) {
        (findings.error("bad-value", text.span.clone(), "the text has quotes, `|` or `\\`"))
            .expected("plain words");
    }
}
