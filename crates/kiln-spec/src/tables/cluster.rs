//! `[cluster]`: the cluster as a whole.

use crate::diagnostic::Findings;
use crate::merge::Merged;
use crate::written::table::table;
use crate::written::{At, Text};

table! {
    /// The cluster as a whole.
    ClusterTable {
        /// Name of the cluster, and Slurm's `ClusterName`: lower-case letters, digits and `-`, a letter first and no `-` last, at most 31 characters.
        "name" => name: Text, required;
        /// DNS domain of the nodes. The full name of a node is `NODE.DOMAIN`.
        "domain" => domain: Text, otherwise "`NAME.internal`";
        /// How many cloud or SSH operations run at the same time, 1 to 200.
        "concurrency" => concurrency: At<i64>, default 10;
    }
}

pub(crate) fn concurrency(merged: &Merged, findings: &mut Findings<'_>) -> usize {
    let At { value, span } = &merged.concurrency;
    if !(1..=200).contains(value) {
        let message = format!("`concurrency` cannot be {value}");
        findings.error("out-of-range", span.clone(), message).expected("1 to 200");
    }
    usize::try_from(*value).unwrap_or(1)
}
