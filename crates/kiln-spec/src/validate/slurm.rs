//! Parameters in slurm.conf's own words: which are the site's to set, and which Kiln owns.

use std::collections::BTreeMap;

use super::names::check_one_line;
use super::slurm_parameters::PARAMETERS;
use crate::diagnostic::Findings;
use crate::nearest::did_you_mean;
use crate::written::{At, Named, Scalar, SlurmTable, Text};
use crate::{ConfigValue, SlurmSpec};

/// A parameter and who sets it.
type Owned = (&'static str, &'static str);

const FILE_KEYS: &[Owned] = &[
    ("ClusterName", "it is `name` in [cluster]"),
    ("SlurmctldHost", "it is `node` in [control]"),
    ("ControlMachine", "it is `node` in [control]"),
    ("ControlAddr", "it is `node` in [control]"),
    ("BackupController", "Kiln runs one controller"),
    ("BackupAddr", "Kiln runs one controller"),
    ("NodeName", "it is made from the [compute.*] tables"),
    ("NodeSet", "it is made from the [compute.*] tables"),
    ("PartitionName", "it is made from the [partition.*] tables"),
    ("DownNodes", "use `scontrol update`"),
    ("Include", "the nodes have no other file"),
    ("SlurmUser", "Kiln's daemon and hooks run as this user"),
    ("SlurmdUser", "slurmd must run as root"),
    ("AuthType", "every node's MUNGE is set up to match"),
    ("AuthInfo", "every node's MUNGE is set up to match"),
    ("AuthAltTypes", "every node's MUNGE is set up to match"),
    ("AuthAltParameters", "every node's MUNGE is set up to match"),
    ("CredType", "every node's MUNGE is set up to match"),
    ("SlurmctldPort", "the nodes are told this port when they boot"),
    ("SlurmdPort", "the nodes are told this port when they boot"),
    ("StateSaveLocation", "it is on the state volume"),
    ("SlurmdSpoolDir", "node images have it in one place"),
    ("AccountingStorageHost", "slurmdbd runs on the control node"),
    ("AccountingStorageType", "slurmdbd runs on the control node"),
    ("AccountingStoragePort", "slurmdbd runs on the control node"),
    ("AccountingStorageUser", "slurmdbd runs on the control node"),
    ("AccountingStoragePass", "slurmdbd runs on the control node"),
    ("RebootProgram", "it is Kiln's hook: rollouts need it"),
    ("ResumeProgram", "it is Kiln's hook: nodes are raised by it"),
    ("ResumeFailProgram", "it is Kiln's hook: nodes are raised by it"),
    ("SuspendProgram", "it is Kiln's hook: nodes are removed by it"),
];

pub(super) const NODE_KEYS: &[Owned] = &[
    ("NodeName", "it is `nodes` of the group"),
    ("NodeAddr", "it is `address` of an override"),
    ("NodeHostname", "it is `nodes` of the group"),
    ("Feature", "it is `features` of the group"),
    ("Features", "it is `features` of the group"),
    ("State", "Kiln chooses it by how the nodes are raised"),
    ("Port", "the nodes are told this port when they boot"),
];

pub(super) const PARTITION_KEYS: &[Owned] = &[
    ("PartitionName", "it is the name of the table"),
    ("Nodes", "it is `groups` of the partition"),
    ("Default", "it is `default` of the partition"),
    ("MaxTime", "it is `max_time` of the partition"),
];

pub(super) fn config(written: &SlurmTable, findings: &mut Findings<'_>) -> SlurmSpec {
    let entries = written.config.as_deref().unwrap_or_default();
    for (key, _) in entries {
        warn_of_slip(key, findings);
    }
    check_keys(entries.iter().map(|(key, _)| key), FILE_KEYS, findings);
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
    SlurmSpec {
        config: entries.iter().map(|(key, value)| (key.value.clone(), value.value.clone())).collect(),
    }
}

/// slurmctld does not start with a parameter it does not know.
fn warn_of_slip(key: &Text, findings: &mut Findings<'_>) {
    if PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(&key.value)) {
        return;
    }
    if let Some(hint) = did_you_mean(&key.value, PARAMETERS.iter().copied()) {
        let message = format!("`{}` is not a parameter of slurm.conf that Kiln knows", key.value);
        findings.warning("unknown-parameter", key.span.clone(), message).hint(hint);
    }
}

/// Parameters of a `NodeName` or `PartitionName` line.
pub(super) fn line_config(
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
        if !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            (findings.error(
                "bad-name",
                key.span.clone(),
                format!("`{name}` is not a parameter of slurm.conf"),
            ))
            .expected("letters, digits and `_`");
        }
        if let Some((word, why)) = owned.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)) {
            (findings.error("owned-key", key.span.clone(), format!("Kiln sets {word} itself: {why}")))
                .expected("another parameter");
        }
        if let Some(first) = seen.insert(name.to_ascii_lowercase(), key) {
            let message = format!("`{}` and `{name}` are the same parameter to Slurm", first.value);
            (findings.error("duplicate-key", key.span.clone(), message))
                .expected("each parameter once")
                .related(first.span.clone(), "first here");
        }
    }
}
