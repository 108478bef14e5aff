//! `[partition.NAME]`: a Slurm partition for users' jobs.

use std::collections::HashSet;
use std::ops::Range;

use super::{MergedGroup, account, slurm};
use crate::Partition;
use crate::diagnostic::Findings;
use crate::merge::{Merged, default_text};
use crate::units::is_slurm_time;
use crate::validate::{names, unknown};
use crate::words::and_list;
use crate::written::table::table;
use crate::written::{At, List, Named, Scalar, Text};

table! {
    /// A Slurm partition for users' jobs.
    PartitionTable {
        /// Compute groups whose nodes belong to it.
        "groups" => groups: List<Text>, required;
        /// Whether jobs that name no partition go here (`Default=YES`). At most one partition may set it.
        "default" => default: At<bool>, otherwise "true for the first partition";
        /// Longest run time of a job in Slurm's format, e.g. `1-00:00:00` (`MaxTime`).
        "max_time" => max_time: Text, otherwise "`INFINITE`";
        /// A QOS whose limits hold for all jobs of the partition, beside those of the jobs' own (`QoS`).
        "qos" => qos: Text;
        /// Accounts whose jobs may use it (`AllowAccounts`). Rebuild jobs are not concerned.
        "allow_accounts" => allow_accounts: List<Text>, otherwise "all";
        /// QOS whose jobs may use it (`AllowQos`).
        "allow_qos" => allow_qos: List<Text>, otherwise "all";
        /// Further parameters of the `PartitionName` line in slurm.conf. `PartitionName`, `Nodes`, `Default` and `MaxTime` are not allowed.
        "config" => config: Named<Scalar>, empty;
    }
}

pub(crate) struct MergedPartition {
    pub name: Text,
    /// Whether the user wrote it.
    pub written: bool,
    pub groups: Option<List<Text>>,
    pub default: At<bool>,
    pub max_time: Option<Text>,
    pub qos: Option<Text>,
    pub allow_accounts: Option<List<Text>>,
    pub allow_qos: Option<List<Text>>,
    pub config: Named<Scalar>,
}

/// Of all the groups that `[limits]` yields.
const LIMITS_PARTITION: &str = "compute";

/// With those that Kiln makes if the file has none.
pub(crate) fn merge(written: Option<Named<PartitionTable>>, compute: &[MergedGroup]) -> Vec<MergedPartition> {
    let mut written = written.unwrap_or_default();
    let by_default = written.is_empty();
    if by_default {
        let table = |groups: Vec<Text>, at: &Range<usize>| PartitionTable {
            groups: Some(At::new(groups, at.clone())),
            ..PartitionTable::default()
        };
        let (limited, own): (Vec<&MergedGroup>, Vec<&MergedGroup>) =
            compute.iter().partition(|group| group.from_limits);
        written = (own.into_iter())
            .map(|group| (group.name.clone(), table(vec![group.name.clone()], &group.name.span)))
            .collect();
        if let Some(first) = limited.first() {
            let at = first.name.span.clone();
            let groups = limited.iter().map(|group| group.name.clone()).collect();
            written.push((default_text(LIMITS_PARTITION, &at), table(groups, &at)));
        }
    }
    let some_default = written.iter().any(|(_, table)| table.default.as_ref().is_some_and(|flag| flag.value));
    // `default = false` is a choice too: the first partition without it is the default one.
    let first = written.iter().position(|(_, table)| table.default.is_none()).filter(|_| !some_default);
    (written.into_iter().enumerate())
        .map(|(i, (name, table))| MergedPartition {
            written: !by_default,
            groups: table.groups,
            default: table.default.unwrap_or_else(|| At::new(first == Some(i), name.span.clone())),
            max_time: table.max_time,
            qos: table.qos,
            allow_accounts: table.allow_accounts,
            allow_qos: table.allow_qos,
            config: table.config,
            name,
        })
        .collect()
}

pub(crate) fn validate(merged: &Merged, findings: &mut Findings<'_>) -> Vec<Partition> {
    let mut default: Option<&MergedPartition> = None;
    let mut partitions = Vec::new();
    for written in &merged.partitions {
        if written.written {
            check_partition_name(&written.name, findings);
        }
        check_groups("partition", &written.name, written.groups.as_ref(), merged, findings);
        if written.default.value {
            if let Some(first) = default {
                let message = format!(
                    "partitions `{}` and `{}` both have `default = true`",
                    first.name.value, written.name.value
                );
                (findings.error("two-defaults", written.default.span.clone(), message))
                    .expected("one default partition")
                    .related(first.default.span.clone(), "the other one");
            }
            default = default.or(Some(written));
        }
        if let Some(time) = &written.max_time {
            check_max_time(time, findings);
        }
        check_accounting(written, merged, findings);
        let texts = |list: Option<&List<Text>>| {
            list.map(|list| list.value.iter().map(|text| text.value.clone()).collect())
        };
        partitions.push(Partition {
            name: written.name.value.clone(),
            groups: group_names(written.groups.as_ref()),
            default: written.default.value,
            max_time: written.max_time.as_ref().map(|time| time.value.clone()),
            qos: written.qos.as_ref().map(|qos| qos.value.clone()),
            allow_accounts: texts(written.allow_accounts.as_ref()),
            allow_qos: texts(written.allow_qos.as_ref()),
            config: slurm::line_config(&written.config, slurm::PARTITION_KEYS, findings),
        });
    }
    warn_unreachable(merged, findings);
    partitions
}

/// slurmctld does not start with a partition whose QOS it does not know.
fn check_accounting(written: &MergedPartition, merged: &Merged, findings: &mut Findings<'_>) {
    let named = written.qos.iter().chain(written.allow_qos.iter().flat_map(|list| &list.value));
    named.for_each(|qos| account::check_qos(qos, &merged.qos, findings));
    account::check_accounts(written.allow_accounts.as_ref(), &merged.accounts, findings);
    for (key, parameter, list) in [
        ("allow_accounts", "AllowAccounts", written.allow_accounts.as_ref()),
        ("allow_qos", "AllowQos", written.allow_qos.as_ref()),
    ] {
        if let Some(list) = list.filter(|list| list.value.is_empty()) {
            let message = format!("with an empty `{key}` no job could use the partition");
            findings.error("bad-value", list.span.clone(), message).expected("at least one name");
        }
        check_once(written, key, parameter, list.is_some(), findings);
    }
    check_once(written, "qos", "QoS", written.qos.is_some(), findings);
}

fn check_once(
    written: &MergedPartition,
    key: &str,
    parameter: &str,
    has_key: bool,
    findings: &mut Findings<'_>,
) {
    let twice = written.config.iter().find(|(name, _)| name.value.eq_ignore_ascii_case(parameter));
    if let Some((name, _)) = twice.filter(|_| has_key) {
        let message = format!("partition `{}` has `{key}` and `{parameter}` in `config`", written.name.value);
        findings.error("duplicate-key", name.span.clone(), message).expected(format!("`{key}` alone"));
    }
}

pub(crate) fn check_partition_name(name: &Text, findings: &mut Findings<'_>) {
    names::check_name("partition", name, findings);
    names::check_reserved("partition", &name.value, name.span.clone(), findings);
}

pub(crate) fn group_names(groups: Option<&List<Text>>) -> Vec<String> {
    groups.iter().flat_map(|list| &list.value).map(|group| group.value.clone()).collect()
}

pub(crate) fn check_groups(
    kind: &str,
    name: &Text,
    groups: Option<&List<Text>>,
    merged: &Merged,
    findings: &mut Findings<'_>,
) {
    let Some(groups) = groups else { return };
    let known: Vec<&str> = merged.compute.iter().map(|group| group.name.value.as_str()).collect();
    if groups.value.is_empty() {
        (findings.error("no-groups", groups.span.clone(), format!("{kind} `{}` has no groups", name.value)))
            .expected(format!("one or more of {}", and_list(&known)));
    }
    let mut seen = HashSet::new();
    for group in &groups.value {
        if merged.login.iter().any(|login| login.name.value == group.value)
            && !known.contains(&group.value.as_str())
        {
            (findings.error(
                "unknown-group",
                group.span.clone(),
                format!("`{}` is a login group", group.value),
            ))
            .expected("compute groups: Slurm runs no jobs on login nodes");
        } else if !known.contains(&group.value.as_str()) {
            unknown("compute group", group, &known, findings);
        }
        if !seen.insert(&group.value) {
            (findings.error(
                "duplicate-group",
                group.span.clone(),
                format!("{kind} `{}` names group `{}` twice", name.value, group.value),
            ))
            .expected("each group once");
        }
    }
}

fn check_max_time(time: &Text, findings: &mut Findings<'_>) {
    if !is_slurm_time(&time.value) {
        (findings.error(
            "bad-time",
            time.span.clone(),
            format!("`{}` is not a time in Slurm's format", time.value),
        ))
        .expected("MINUTES, HOURS:MINUTES:SECONDS, DAYS-HOURS:MINUTES:SECONDS or UNLIMITED");
    }
}

fn warn_unreachable(merged: &Merged, findings: &mut Findings<'_>) {
    let used: HashSet<&str> = (merged.partitions.iter())
        .flat_map(|partition| partition.groups.iter().flat_map(|list| &list.value))
        .map(|group| group.value.as_str())
        .collect();
    for group in merged.compute.iter().filter(|group| !used.contains(group.name.value.as_str())) {
        (findings.warning(
            "unused-group",
            group.name.span.clone(),
            format!("group `{}` is in no partition", group.name.value),
        ))
        .hint("its nodes will never run a job; name it in the `groups` of a [partition.*] table");
    }
}
