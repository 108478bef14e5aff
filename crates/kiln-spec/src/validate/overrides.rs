//! Settings of single nodes.

use std::collections::{BTreeMap, HashSet};

use super::nodes::{check_feature, check_flavor, expand};
use super::{network, switches};
use crate::NodeOverride;
use crate::diagnostic::Findings;
use crate::tables::{ComputeOverrideTable, MergedGroup, gpus, slurm};
use crate::words::node_list;

/// The overrides of a group by node name; several may set different things for one node.
pub(crate) fn overrides(
    written: &MergedGroup,
    nodes: &[String],
    findings: &mut Findings<'_>,
) -> BTreeMap<String, NodeOverride> {
    let members: HashSet<&str> = nodes.iter().map(String::as_str).collect();
    let mut merged: BTreeMap<String, NodeOverride> = BTreeMap::new();
    for (key, table) in &written.table.overrides {
        let Some(named) = expand(key, findings) else {
            continue;
        };
        let strangers: Vec<&String> = named.iter().filter(|node| !members.contains(node.as_str())).collect();
        // Without nodes the group's own hostlist was wrong; that is the error to correct first.
        if !strangers.is_empty() && !nodes.is_empty() {
            let message = format!("{} is not in group `{}`", node_list(&strangers), written.name.value);
            (findings.error("not-in-group", key.span.clone(), message))
                .expected(format!("nodes of the group: {}", node_list(nodes)));
        }
        let settings = override_settings(table, written.table.elastic.is_some(), findings);
        for node in named {
            let at = merged.entry(node.clone()).or_default();
            if let Some(setting) = combine(at, &settings) {
                let message = format!("`{setting}` of {node} is set by two overrides");
                findings
                    .error("duplicate-override", key.span.clone(), message)
                    .expected("one override for each setting");
            }
        }
    }
    merged
}

fn override_settings(
    table: &ComputeOverrideTable,
    elastic: bool,
    findings: &mut Findings<'_>,
) -> NodeOverride {
    let features = table.features.as_ref().map(|list| &list.value);
    for feature in features.into_iter().flatten() {
        check_feature(feature, findings);
    }
    if let Some(flavor) = &table.flavor {
        check_flavor(flavor, findings);
    }
    NodeOverride {
        flavor: table.flavor.as_ref().map(|flavor| flavor.value.clone()),
        image: table.image.as_ref().map(|image| image.value.clone()),
        features: features.map(|features| features.iter().map(|feature| feature.value.clone()).collect()),
        address: table
            .address
            .as_ref()
            .and_then(|address| network::address(address, findings))
            .map(Into::into),
        gpus: table.gpus.as_ref().map(|gpus| gpus::validate(gpus, elastic, findings)),
        switch: table.switch.as_ref().and_then(|switch| switches::path(switch, findings)),
        node_config: (!table.node_config.is_empty())
            .then(|| slurm::line_config(&table.node_config, slurm::NODE_KEYS, findings)),
    }
}

/// Adds settings to those a node has; returns the name of one that is in both.
fn combine(into: &mut NodeOverride, from: &NodeOverride) -> Option<&'static str> {
    fn set<T: Clone>(into: &mut Option<T>, from: Option<&T>) -> bool {
        let clash = into.is_some() && from.is_some();
        if let Some(value) = from {
            *into = Some(value.clone());
        }
        clash
    }
    let clashes = [
        ("flavor", set(&mut into.flavor, from.flavor.as_ref())),
        ("image", set(&mut into.image, from.image.as_ref())),
        ("features", set(&mut into.features, from.features.as_ref())),
        ("address", set(&mut into.address, from.address.as_ref())),
        ("gpus", set(&mut into.gpus, from.gpus.as_ref())),
        ("switch", set(&mut into.switch, from.switch.as_ref())),
        ("node_config", set(&mut into.node_config, from.node_config.as_ref())),
    ];
    clashes.iter().find(|(_, clash)| *clash).map(|(name, _)| *name)
}
