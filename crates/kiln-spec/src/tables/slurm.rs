//! `[slurm]`: Slurm's own configuration.

use std::collections::BTreeMap;

use crate::diagnostic::Findings;
use crate::nearest::did_you_mean;
use crate::slurm_parameters::{PARAMETERS, is_known};
use crate::validate::names::check_one_line;
use crate::written::table::table;
use crate::written::{At, Named, Scalar, Text};
use crate::{ConfigValue, Partition, SlurmSpec};

table! {
    /// Slurm's own configuration.
    SlurmTable {
        /// Parameters of slurm.conf. They replace Kiln's own, or are added to it where it is a list (below). `false` removes Kiln's line, but not that of a list.
        "config" => config: Named<At<ConfigValue>>, empty;
        /// Parameters of slurmdbd.conf, such as what is purged and archived: `{ PurgeJobAfter = "12months" }`. How slurmdbd reaches its database is set by Kiln.
        "slurmdbd_config" => slurmdbd_config: Named<Scalar>, empty;
        /// Runs slurmrestd on the control node, behind TLS on port 6843, for users with a token of `scontrol token`.
        "rest" => rest: At<bool>, default false;
    }
}

/// A parameter and who sets it.
type Owned = (&'static str, &'static str);

const FILE_KEYS: &[Owned] = &[
    ("ClusterName", "it is `name` in [cluster]"),
    ("SlurmctldHost", "it is `node` in [control]"),
    ("ControlMachine", "it is `node` in [control]"),
    ("ControlAddr", "it is `node` in [control]"),
    ("BackupController", "Kiln supports only one controller"),
    ("BackupAddr", "Kiln supports only one controller"),
    ("NodeName", "it is made from the [compute.*] tables"),
    ("NodeSet", "it is made from the [compute.*] tables"),
    ("PartitionName", "it is made from the [partition.*] tables"),
    ("DownNodes", "use `scontrol update`"),
    ("Include", "Kiln distributes no file that could be included"),
    ("SlurmUser", "the images and the state volume are set up for this user"),
    ("SlurmdUser", "slurmd must run as root"),
    ("AuthType", "the MUNGE configuration of every node matches it"),
    ("AuthInfo", "the MUNGE configuration of every node matches it"),
    ("CredType", "the MUNGE configuration of every node matches it"),
    ("SlurmctldPort", "the nodes are told this port when they boot"),
    ("SlurmdPort", "the nodes are told this port when they boot"),
    ("StateSaveLocation", "it is on the state volume"),
    ("SlurmdSpoolDir", "the node images have this directory in a fixed place"),
    ("AccountingStorageHost", "it is `host` in [accounting]"),
    ("AccountingStorageBackupHost", "it is `backup_host` in [accounting]"),
    ("AccountingStorageType", "slurmctld always reports to a slurmdbd"),
    ("AccountingStoragePort", "it is `port` in [accounting]"),
    ("AccountingStorageUser", "slurmdbd knows slurmctld by MUNGE"),
    ("AccountingStoragePass", "slurmdbd knows slurmctld by MUNGE"),
    ("RebootProgram", "it is reserved for Kiln"),
    ("ResumeProgram", "it is reserved for Kiln"),
    ("ResumeFailProgram", "it is reserved for Kiln"),
    ("SuspendProgram", "it is reserved for Kiln"),
];

/// With `rest`.
const REST_KEYS: &[Owned] = &[
    ("AuthAltTypes", "`rest = true` sets it"),
    ("AuthAltParameters", "`rest = true` sets it, and the key is a secret of the cluster"),
];

const SLURMDBD_KEYS: &[Owned] = &[
    ("AuthType", "the MUNGE configuration of every node matches it"),
    ("AuthInfo", "the MUNGE configuration of every node matches it"),
    ("DbdHost", "slurmdbd runs on the control node"),
    ("DbdAddr", "slurmdbd runs on the control node"),
    ("DbdBackupHost", "slurmdbd runs on the control node"),
    ("DbdPort", "slurmctld is told this port"),
    ("PidFile", "systemd looks for it in a fixed place"),
    ("SlurmUser", "the images and the state volume are set up for this user"),
    ("StorageType", "the database is on the state volume"),
    ("StorageHost", "the database is on the state volume"),
    ("StorageBackupHost", "the database is on the state volume"),
    ("StoragePort", "the database is on the state volume"),
    ("StorageUser", "Kiln makes this user"),
    ("StoragePass", "it is a secret of the cluster"),
    ("StorageLoc", "Kiln makes this database"),
];

pub(crate) const NODE_KEYS: &[Owned] = &[
    ("NodeName", "it is `nodes` of the group"),
    ("NodeAddr", "it is `address` of an override"),
    ("NodeHostname", "it is `nodes` of the group"),
    ("Feature", "it is `features` of the group"),
    ("Features", "it is `features` of the group"),
    ("State", "Kiln sets it to match how the nodes are created"),
    ("Port", "the nodes are told this port when they boot"),
];

pub(crate) const PARTITION_KEYS: &[Owned] = &[
    ("PartitionName", "it is the name of the table"),
    ("Nodes", "it is `groups` of the partition"),
    ("Default", "it is `default` of the partition"),
    ("MaxTime", "it is `max_time` of the partition"),
];

/// Rebuild jobs run before user jobs because of their partition's factor. A parameter that switches the factor off would let
/// a rollout wait behind every user job. With each: what keeps the factor on.
const REBUILD_NEEDS: &[(&str, Allows, &str)] = &[
    ("PriorityType", |value| value.eq_ignore_ascii_case("priority/multifactor"), "\"priority/multifactor\""),
    (
        "PriorityWeightPartition",
        |value| value.parse::<u64>().is_ok_and(|weight| weight > 0),
        "a number above 0",
    ),
];

type Allows = fn(&str) -> bool;

fn check_rebuild_needs(written: &SlurmTable, findings: &mut Findings<'_>) {
    for (name, allows, needed) in REBUILD_NEEDS {
        let entry = written.config.iter().find(|(key, _)| key.value.eq_ignore_ascii_case(name));
        let Some((_, At { value, span })) = entry else { continue };
        let text = match value {
            ConfigValue::Set(text) => text.as_str(),
            ConfigValue::List(_) | ConfigValue::Removed => "",
        };
        if !allows(text) {
            let message = format!("with this {name} rebuild jobs would wait behind all user jobs");
            (findings.error("breaks-rebuild", span.clone(), message)).expected(*needed).hint(
                "a cluster whose compute groups all have `image_update = \"apply\"` has no rebuild jobs",
            );
        }
    }
}

/// The factor of a rebuild partition. `PriorityFlags=NO_NORMAL_PART` leaves factors as they are.
const REBUILD_FACTOR: u64 = 65533;
const DEFAULT_PARTITION_WEIGHT: u64 = 1000;

/// A user job has at most one of each other weight, and the factor of its own partition.
fn check_weights(written: &SlurmTable, partitions: &[Partition], findings: &mut Findings<'_>) {
    let weights = written.config.iter().filter_map(|(key, At { value, span })| {
        let name = key.value.to_ascii_lowercase();
        let ConfigValue::Set(text) = value else { return None };
        Some((name.strip_prefix("priorityweight")?.to_string(), weight(text), key, span))
    });
    let (own, others): (Vec<_>, Vec<_>) = weights.partition(|(name, ..)| name == "partition");
    let own = own.first().map_or(DEFAULT_PARTITION_WEIGHT, |(_, weight, ..)| *weight);
    let of_users = partitions.iter().filter_map(Partition::priority_factor).max().unwrap_or(1);
    let ahead = own.saturating_mul(REBUILD_FACTOR.saturating_sub(of_users));
    let sum = others.iter().fold(0u64, |sum, (_, weight, ..)| sum.saturating_add(*weight));
    let Some((_, _, key, span)) = others.iter().max_by_key(|(_, weight, ..)| *weight) else { return };
    // One of 0 is reported by itself.
    if own > 0 && sum >= ahead {
        let message = format!("with this {} rebuild jobs would wait behind user jobs", key.value);
        (findings.error("breaks-rebuild", (*span).clone(), message))
            .expected(format!("PriorityWeight parameters below {ahead} in sum"))
            .hint("a higher PriorityWeightPartition leaves more room for the others");
    }
}

/// `1000`, or of several resources `cpu=1000,mem=2000`. What is no number counts nothing: Slurm refuses it.
fn weight(text: &str) -> u64 {
    let numbers = text.split(',').map(|part| part.rsplit('=').next().unwrap_or_default().trim());
    numbers.filter_map(|number| number.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

/// With preemption a tier for rebuild jobs would let them end user jobs, so they have none, and may wait behind those that have.
fn warn_preemption(
    written: &SlurmTable,
    spec: &SlurmSpec,
    partitions: &[Partition],
    findings: &mut Findings<'_>,
) {
    let preempt = written.config.iter().find(|(key, _)| key.value.eq_ignore_ascii_case("PreemptType"));
    let Some((_, At { value: ConfigValue::Set(kind), span })) = preempt.filter(|_| spec.preempts()) else {
        return;
    };
    let highest = (partitions.iter())
        .filter_map(|partition| Some((partition.priority_tier()?, partition)))
        .filter(|(tier, _)| *tier > 1)
        .max_by_key(|(tier, _)| *tier);
    let by_qos = kind.eq_ignore_ascii_case("preempt/qos");
    let message = match highest {
        Some((tier, partition)) => format!(
            "with preemption, jobs in partition `{}` (PriorityTier={tier}) go before rebuild jobs",
            partition.name
        ),
        None if by_qos => {
            "with preemption, jobs of a higher QOS may end rebuild jobs, which are then submitted again"
                .into()
        }
        None => return,
    };
    (findings.warning("preempts-rebuild", span.clone(), message))
        .hint("a rollout may wait as long as such jobs come; `kiln rebuild --strategy drain` needs no jobs");
}

/// `rebuilds`: the cluster has a rebuild partition.
pub(crate) fn validate(
    written: &SlurmTable,
    rebuilds: bool,
    partitions: &[Partition],
    findings: &mut Findings<'_>,
) -> SlurmSpec {
    let entries = &written.config;
    if rebuilds {
        check_rebuild_needs(written, findings);
        check_weights(written, partitions, findings);
    }
    for (key, _) in entries {
        warn_if_unknown(key, findings);
    }
    check_keys(entries.iter().map(|(key, _)| key), FILE_KEYS, findings);
    if written.rest.value {
        let of_slurmdbd = written.slurmdbd_config.iter().map(|(key, _)| key);
        check_owned(entries.iter().map(|(key, _)| key).chain(of_slurmdbd), REST_KEYS, findings);
    }
    for (key, At { value, span }) in entries {
        let texts: &[String] = match value {
            ConfigValue::Set(text) => std::slice::from_ref(text),
            ConfigValue::List(list) => list,
            ConfigValue::Removed => &[],
        };
        for text in texts {
            check_one_line(
                &format!("the value of {}", key.value),
                &Text::new(text.clone(), span.clone()),
                findings,
            );
        }
    }
    let spec = SlurmSpec {
        slurmdbd_config: line_config(&written.slurmdbd_config, SLURMDBD_KEYS, findings),
        config: entries.iter().map(|(key, value)| (key.value.clone(), value.value.clone())).collect(),
        rest: written.rest.value,
    };
    if rebuilds {
        warn_preemption(written, &spec, partitions, findings);
    }
    spec
}

/// slurmctld does not start with a parameter it does not know.
fn warn_if_unknown(key: &Text, findings: &mut Findings<'_>) {
    if is_known(&key.value) || !is_parameter(&key.value) {
        return;
    }
    let message = format!("slurm.conf has no parameter `{}` that Kiln knows", key.value);
    (findings.warning("unknown-parameter", key.span.clone(), message))
        .hint("Slurm refuses to start with a parameter it does not know; check the spelling for your release")
        .maybe_hint(did_you_mean(&key.value, PARAMETERS.iter().copied()));
}

/// Whether it can be a parameter at all.
fn is_parameter(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parameters of a `NodeName` or `PartitionName` line, or of slurmdbd.conf.
pub(crate) fn line_config(
    written: &Named<Scalar>,
    owned: &[Owned],
    findings: &mut Findings<'_>,
) -> BTreeMap<String, String> {
    check_keys(written.iter().map(|(key, _)| key), owned, findings);
    for (key, Scalar(text)) in written {
        check_one_line(&format!("the value of {}", key.value), text, findings);
    }
    written.iter().map(|(key, Scalar(text))| (key.value.clone(), text.value.clone())).collect()
}

fn check_keys<'a>(keys: impl Iterator<Item = &'a Text>, owned: &[Owned], findings: &mut Findings<'_>) {
    let mut seen: BTreeMap<String, &Text> = BTreeMap::new();
    for key in keys {
        let name = &key.value;
        if !is_parameter(name) {
            (findings.error("bad-name", key.span.clone(), format!("`{name}` is not a parameter of Slurm")))
                .expected("letters, digits and `_`");
        }
        check_owned(std::iter::once(key), owned, findings);
        if let Some(first) = seen.insert(name.to_ascii_lowercase(), key) {
            let message = format!("`{}` and `{name}` are the same parameter to Slurm", first.value);
            (findings.error("duplicate-key", key.span.clone(), message))
                .expected("each parameter once")
                .related(first.span.clone(), "first here");
        }
    }
}

fn check_owned<'a>(keys: impl Iterator<Item = &'a Text>, owned: &[Owned], findings: &mut Findings<'_>) {
    for key in keys {
        if let Some((word, why)) = owned.iter().find(|(word, _)| word.eq_ignore_ascii_case(&key.value)) {
            (findings.error("owned-key", key.span.clone(), format!("{word} cannot be set here: {why}")))
                .expected("another parameter");
        }
    }
}
