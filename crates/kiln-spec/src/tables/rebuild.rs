//! `[rebuild.NAME]`: a hidden partition through which nodes are rebuilt.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::MergedGroup;
use super::partition::{check_groups, check_partition_name, group_names};
use crate::diagnostic::Findings;
use crate::merge::{Merged, default_text};
use crate::units::duration;
use crate::words::{and_list, node_list};
use crate::written::table::table;
use crate::written::{At, List, Named, Text};
use crate::{Group, ImageUpdate, RebuildPartition};

table! {
    /// A hidden partition, for root only, through which nodes are rebuilt.
    RebuildTable {
        /// Compute groups whose nodes are rebuilt through it. It must contain all groups of a users' partition or none of them, and a group cannot be in two rebuild partitions.
        "groups" => groups: List<Text>, required;
        /// Longest time that the rebuild of one node may take, one minute or more, e.g. `1h30m`.
        "max_time" => max_time: Text, default "30m";
    }
}

pub(crate) struct MergedRebuild {
    pub name: Text,
    /// Whether the user wrote it.
    pub written: bool,
    pub groups: Option<List<Text>>,
    pub max_time: Text,
}

const DEFAULT_NAME: &str = "rebuild";

/// With the one that Kiln makes if the file has none.
pub(crate) fn merge(written: Option<Named<RebuildTable>>, compute: &[MergedGroup]) -> Vec<MergedRebuild> {
    let written = written.unwrap_or_default();
    if !written.is_empty() {
        return (written.into_iter())
            .map(|(name, table)| MergedRebuild {
                written: true,
                groups: table.groups,
                max_time: table.max_time,
                name,
            })
            .collect();
    }
    let groups: Vec<Text> = (compute.iter())
        .filter(|group| group.table.image_update.value == ImageUpdate::Slurm)
        .map(|group| group.name.clone())
        .collect();
    let Some(first) = groups.first() else {
        return Vec::new();
    };
    let at = first.span.clone();
    vec![MergedRebuild {
        name: default_text(DEFAULT_NAME, &at),
        written: false,
        max_time: RebuildTable::default().max_time,
        groups: Some(At::new(groups, at)),
    }]
}

pub(crate) fn validate(
    merged: &Merged,
    compute: &[Group],
    findings: &mut Findings<'_>,
) -> Vec<RebuildPartition> {
    for written in &merged.rebuild {
        if written.written {
            check_partition_name(&written.name, findings);
        }
        check_groups("rebuild partition", &written.name, written.groups.as_ref(), merged, findings);
        if let Some(clash) =
            merged.partitions.iter().find(|partition| partition.name.value == written.name.value)
        {
            let message = format!(
                "a rebuild partition and a partition for users are both named `{}`",
                clash.name.value
            );
            findings
                .error("duplicate-partition", clash.name.span.clone(), message)
                .expected("different names");
        }
    }
    report_overlaps(&merged.rebuild, findings);
    report_partial_cover(merged, compute, findings);
    warn_update_mismatch(merged, findings);
    (merged.rebuild.iter())
        .map(|written| RebuildPartition {
            name: written.name.value.clone(),
            groups: group_names(written.groups.as_ref()),
            max_time: time(&written.max_time, findings),
        })
        .collect()
}

/// A time in which something about a rebuild has to be over.
pub(crate) fn time(time: &Text, findings: &mut Findings<'_>) -> Duration {
    let minute = Duration::from_secs(60);
    match duration(&time.value) {
        Some(duration) if duration >= minute => duration,
        _ => {
            (findings.error(
                "bad-time",
                time.span.clone(),
                format!("`{}` is not a valid time for a rebuild", time.value),
            ))
            .expected("a duration of a minute or more, e.g. \"30m\" or \"1h30m\"");
            minute
        }
    }
}

/// A node in two rebuild partitions would be rebuilt twice. Groups share no nodes, so comparing them is enough.
fn report_overlaps(rebuild: &[MergedRebuild], findings: &mut Findings<'_>) {
    let mut owner: BTreeMap<&str, (&MergedRebuild, &Text)> = BTreeMap::new();
    for partition in rebuild {
        for group in partition.groups.iter().flat_map(|list| &list.value) {
            let Some((other, first)) = owner.insert(&group.value, (partition, group)) else {
                continue;
            };
            if other.name.value == partition.name.value {
                continue;
            }
            let message = format!(
                "rebuild partitions `{}` and `{}` share the nodes of group `{}`, which would be rebuilt twice",
                other.name.value, partition.name.value, group.value
            );
            (findings.error("rebuild-overlap", group.span.clone(), message))
                .expected("a group that is in no other rebuild partition")
                .related(first.span.clone(), format!("also in `{}`", other.name.value));
        }
    }
}

/// A job could else straddle nodes of the old and the new image.
fn report_partial_cover(merged: &Merged, compute: &[Group], findings: &mut Findings<'_>) {
    let nodes: BTreeMap<&str, &[String]> =
        compute.iter().map(|group| (group.name.as_str(), group.nodes.as_slice())).collect();
    for rebuild in &merged.rebuild {
        let covered: HashSet<&str> =
            rebuild.groups.iter().flat_map(|list| &list.value).map(|group| group.value.as_str()).collect();
        for partition in &merged.partitions {
            let Some(groups) = &partition.groups else {
                continue;
            };
            let (inside, outside): (Vec<&str>, Vec<&str>) = groups
                .value
                .iter()
                .map(|group| group.value.as_str())
                .partition(|group| covered.contains(group));
            let missing: Vec<&String> =
                outside.iter().filter_map(|group| nodes.get(group)).copied().flatten().collect();
            if inside.is_empty() || missing.is_empty() {
                continue;
            }
            let message = format!(
                "rebuild partition `{}` covers only part of partition `{}`: {} is missing",
                rebuild.name.value,
                partition.name.value,
                node_list(&missing)
            );
            let at = rebuild
                .groups
                .as_ref()
                .filter(|_| rebuild.written)
                .map_or(&groups.span, |list| &list.span)
                .clone();
            let finding = findings.error("rebuild-partial", at, message);
            finding.expected("all groups of a partition, or none");
            if rebuild.written {
                finding.hint(format!(
                    "add {} to the groups of [rebuild.{}]",
                    and_list(&outside),
                    rebuild.name.value
                ));
                finding.related(groups.span.clone(), format!("partition `{}`", partition.name.value));
            } else {
                finding.hint(format!(
                    "Kiln makes this rebuild partition from the groups with image_update = \"slurm\": give {} the same, \
                     or write [rebuild.NAME] tables",
                    and_list(&outside)
                ));
            }
        }
    }
}

fn warn_update_mismatch(merged: &Merged, findings: &mut Findings<'_>) {
    let rebuilt: HashSet<&str> = (merged.rebuild.iter())
        .flat_map(|partition| partition.groups.iter().flat_map(|list| &list.value))
        .map(|group| group.value.as_str())
        .collect();
    for group in &merged.compute {
        let name = &group.name.value;
        match (group.table.image_update.value, rebuilt.contains(name.as_str())) {
            (ImageUpdate::Slurm, false) => {
                (findings.warning("never-rebuilt", group.name.span.clone(), format!("group `{name}` is in no rebuild partition")))
                    .hint("a new image cannot reach its nodes; name it in a [rebuild.*] table or set image_update = \"apply\"");
            }
            (ImageUpdate::Apply, true) => {
                let message =
                    format!("group `{name}` is in a rebuild partition, but `kiln apply` rebuilds it at once");
                (findings.warning("rebuilt-by-apply", group.name.span.clone(), message))
                    .hint("set image_update = \"slurm\" if `kiln apply` must not rebuild its nodes");
            }
            _ => {}
        }
    }
}
