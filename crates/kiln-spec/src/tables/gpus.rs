//! `gpus` of a compute group: what the cloud does not say of its GPUs, or says otherwise.

use super::MergedGroup;
use crate::cloud::CloudFacts;
use crate::diagnostic::Findings;
use crate::validate::names;
use crate::written::table::table;
use crate::written::{At, Choice, Text};
use crate::{Detect, GpuSpec, hostlist};

table! {
    /// The GPUs of the nodes, for Slurm. What is left out is what the cloud says of the flavor.
    GpusTable {
        /// How many each node has, 0 to 64. With 0 jobs cannot ask for GPUs of these nodes.
        "count" => count: At<i64>, otherwise "what the cloud says of the flavor";
        /// The type that jobs ask for, e.g. `a100`: lower-case letters, digits, `_`, `-` and `.`.
        "type" => kind: Text, otherwise "what the cloud says of the flavor";
        /// The device files, e.g. `/dev/nvidia[0-3]`. Required on the local cloud, which has no GPUs: files that stand for them.
        "files" => files: Text, otherwise "`/dev/nvidia[0-N]`, or `/dev/dri/renderD[128-N]` of AMD's";
        /// slurmd finds the devices, with their CPUs and links, with one of its plugins: `nvml`, `nvidia`, `rsmi` or `oneapi`. The image must have the plugin. Not for elastic groups.
        "detect" => detect: At<Detect>, otherwise "`nvml` or `rsmi` if the image has the package of that plugin, otherwise the files";
    }
}

impl Choice for Detect {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("nvml", Detect::Nvml),
        ("nvidia", Detect::Nvidia),
        ("rsmi", Detect::Rsmi),
        ("oneapi", Detect::Oneapi),
    ];
}

/// As many as a machine may have.
const MOST: i64 = 64;

/// `elastic`: whether the nodes come and go.
pub(crate) fn validate(table: &GpusTable, elastic: bool, findings: &mut Findings<'_>) -> GpuSpec {
    if let Some(detect) = table.detect.as_ref().filter(|_| elastic) {
        (findings.error(
            "bad-gpus",
            detect.span.clone(),
            "nodes of an elastic group cannot detect their GPUs",
        ))
        .expected("no `detect`")
        .hint("slurmctld must know the devices of nodes that do not exist yet: `files` names them");
    }
    let count = table.count.as_ref().filter(|count| {
        let right = (0..=MOST).contains(&count.value);
        if !right {
            let message = format!("a node cannot have {} GPUs", count.value);
            findings.error("out-of-range", count.span.clone(), message).expected(format!("0 to {MOST}"));
        }
        right
    });
    if let Some(kind) = &table.kind {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
        // A number alone is a count to Slurm.
        if kind.value.is_empty() || !kind.value.chars().all(is_plain) || kind.value.parse::<u64>().is_ok() {
            let message = format!("`{}` cannot be a type of GPUs", kind.value);
            (findings.error("bad-name", kind.span.clone(), message))
                .expected("lower-case letters, digits, `_`, `-` and `.`, and not a number alone");
        }
    }
    if let Some(files) = &table.files {
        check_files(files, count, findings);
    }
    if let (Some(files), Some(_)) = (&table.files, &table.detect) {
        (findings.error("bad-gpus", files.span.clone(), "`files` and `detect` exclude each other"))
            .expected("one of them");
    }
    GpuSpec {
        count: count.and_then(|count| u32::try_from(count.value).ok()),
        kind: table.kind.as_ref().map(|kind| kind.value.clone()),
        files: table.files.as_ref().map(|files| files.value.clone()),
        detect: table.detect.as_ref().map(|detect| detect.value),
    }
}

/// Where machines have no devices of their own, files must stand for GPUs: Slurm has none without a file.
pub(crate) fn check_cloud(group: &MergedGroup, facts: &CloudFacts, findings: &mut Findings<'_>) {
    let table = &group.table;
    let of_nodes = table.overrides.iter().filter_map(|(_, own)| own.gpus.as_ref());
    for gpus in table.gpus.iter().chain(of_nodes).filter(|_| !facts.has_kernels) {
        let none = gpus.count.as_ref().is_some_and(|count| count.value == 0);
        if !none && gpus.files.is_none() {
            let message = format!("a cloud of the kind `{}` has no GPUs", facts.kind);
            (findings.error("bad-gpus", gpus.at.clone(), message))
                .expected("`files`, which stand for GPUs")
                .hint("e.g. { count = 1, files = \"/dev/null\" }, to try jobs that ask for GPUs");
        }
    }
}

/// Slurm takes their number for that of the GPUs.
fn check_files(files: &Text, count: Option<&At<i64>>, findings: &mut Findings<'_>) {
    if !names::check_one_line("`files`", files, findings) {
        return;
    }
    let Some(number) = number_of(&files.value) else {
        (findings.error(
            "bad-path",
            files.span.clone(),
            format!("`{}` does not name device files", files.value),
        ))
        .expected("absolute paths in Slurm's notation, e.g. \"/dev/nvidia[0-3]\"");
        return;
    };
    if let Some(count) = count.filter(|count| usize::try_from(count.value).ok() != Some(number)) {
        let message = format!("there are {number} device files for {} GPUs", count.value);
        findings.error("bad-gpus", files.span.clone(), message).expected("one file for each GPU");
    }
}

fn number_of(files: &str) -> Option<usize> {
    // The notation is that of hosts, whose names have no slashes.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.[],".contains(c);
    if !files.starts_with('/') || !files.chars().all(is_plain) {
        return None;
    }
    hostlist::expand(&files.replace(['/', '.'], "x")).ok().map(|files| files.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_files_are_counted() {
        for (files, wanted) in [
            ("/dev/nvidia[0-3]", Some(4)),
            ("/dev/nvidia0,/dev/nvidia1", Some(2)),
            ("/dev/dri/renderD[128-135]", Some(8)),
            ("/dev/nvidia0", Some(1)),
            ("nvidia0", None),
            ("/dev/nvidia[0-", None),
            ("/dev/nvidia0 Type=x", None),
        ] {
            assert_eq!(number_of(files), wanted, "{files}");
        }
    }
}
