//! Groups and their nodes: hostlists expanded, every node in one place only, overrides merged.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::names;
use crate::Group;
use crate::diagnostic::Findings;
use crate::hostlist;
use crate::merge::Merged;
use crate::tables::{MergedGroup, compute};
use crate::words::node_list;
use crate::written::Text;

/// Slurm's own limit for a range, and enough for any cluster.
const MAX_NODES: usize = 65_536;

/// Whose each node is. Host names know no case, so neither do the keys.
struct Census<'a> {
    owner: HashMap<String, Owner<'a>>,
    over_limit: bool,
}

#[derive(Clone)]
struct Owner<'a> {
    name: &'a str,
    at: Range<usize>,
}

pub(crate) fn groups(merged: &Merged, findings: &mut Findings<'_>) -> (Vec<Group>, Vec<Group>) {
    let control = &merged.control.node;
    check_host_names(control, std::slice::from_ref(&control.value), findings);
    let owner = Owner { name: "control", at: control.span.clone() };
    let mut census =
        Census { owner: HashMap::from([(control.value.to_ascii_lowercase(), owner)]), over_limit: false };
    let login = merged.login.iter().map(|written| group(written, &mut census, findings)).collect();
    let compute = merged.compute.iter().map(|written| group(written, &mut census, findings)).collect();
    (login, compute)
}

fn group<'a>(written: &'a MergedGroup, census: &mut Census<'a>, findings: &mut Findings<'_>) -> Group {
    names::check_name("group", &written.name, findings);
    if names::check_reserved("group", &written.name.value, written.name.span.clone(), findings)
        && written.name.value == "control"
    {
        (findings.error(
            "reserved-name",
            written.name.span.clone(),
            "a group cannot be named `control`: the control node has that name",
        ))
        .expected("another name");
    }
    let nodes = written.table.nodes.as_ref().and_then(|nodes| expand(nodes, findings)).unwrap_or_default();
    if let Some(list) = &written.table.nodes {
        check_host_names(list, &nodes, findings);
        census.take(written, list, &nodes, findings);
    }
    compute::validate(written, nodes, findings)
}

/// Expands a hostlist; an error points at the wrong part of it.
pub(crate) fn expand(list: &Text, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    match hostlist::expand(&list.value) {
        Ok(nodes) => Some(nodes),
        Err(error) => {
            let at = list.part(findings.source(), error.span);
            findings.error("bad-hostlist", at, error.message).expected(error.expected);
            None
        }
    }
}

/// Reports the first name that cannot be a host's; the others of the list mostly fail the same way.
fn check_host_names(list: &Text, nodes: &[String], findings: &mut Findings<'_>) {
    for node in nodes {
        if !names::check_reserved("node", node, list.span.clone(), findings) {
            return;
        }
        let mut fault = names::host_name_fault(node);
        let mut hint = None;
        if fault.is_none() && node.contains(|c: char| c.is_ascii_uppercase()) {
            fault = Some("no upper-case letters");
            hint = Some(format!("write it in lower case: \"{}\"", list.value.to_ascii_lowercase()));
        }
        if let Some(expected) = fault {
            (findings.error("bad-name", list.span.clone(), format!("`{node}` cannot be the name of a node")))
                .expected(expected)
                .maybe_hint(hint);
            return;
        }
    }
}

impl<'a> Census<'a> {
    fn take(&mut self, group: &'a MergedGroup, list: &Text, nodes: &[String], findings: &mut Findings<'_>) {
        let mut twice: Vec<&str> = Vec::new();
        let mut elsewhere: BTreeMap<usize, (Owner<'a>, Vec<&str>)> = BTreeMap::new();
        for node in nodes {
            let owner = Owner { name: &group.name.value, at: list.span.clone() };
            match self.owner.insert(node.to_ascii_lowercase(), owner) {
                None => {}
                Some(first) if first.at == list.span => twice.push(node),
                Some(first) => elsewhere.entry(first.at.start).or_insert((first, Vec::new())).1.push(node),
            }
        }
        if !twice.is_empty() {
            (findings.error(
                "duplicate-node",
                list.span.clone(),
                format!("the hostlist names {} more than once", node_list(&twice)),
            ))
            .expected("each node once");
        }
        for (owner, nodes) in elsewhere.into_values() {
            report_shared(group, list, &owner, &nodes, findings);
        }
        if self.owner.len() > MAX_NODES && !self.over_limit {
            self.over_limit = true;
            let message = format!("with this group the cluster has {} nodes", self.owner.len());
            findings
                .error("too-many-nodes", list.span.clone(), message)
                .expected(format!("at most {MAX_NODES} nodes"));
        }
    }
}

fn report_shared(
    group: &MergedGroup,
    list: &Text,
    owner: &Owner<'_>,
    nodes: &[&str],
    findings: &mut Findings<'_>,
) {
    let nodes = node_list(nodes);
    let name = &group.name.value;
    if owner.name == "control" {
        let message = format!("group `{name}` contains `{nodes}`, which is the control node");
        (findings.error("duplicate-node", list.span.clone(), message))
            .expected("other names")
            .hint("[control] node = \"...\" gives the control node another name");
        return;
    }
    let message = format!("{nodes} would be in two groups, `{}` and `{name}`", owner.name);
    (findings.error("duplicate-node", list.span.clone(), message))
        .expected("nodes that are in no other group")
        .related(owner.at.clone(), format!("also in group `{}`", owner.name));
}

pub(crate) fn check_feature(feature: &Text, findings: &mut Findings<'_>) {
    let right = !feature.value.is_empty()
        && feature
            .value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '='));
    if !right {
        (findings.error(
            "bad-name",
            feature.span.clone(),
            format!("`{}` cannot be a feature", feature.value),
        ))
        .expected("letters, digits, `_`, `-`, `.`, one feature per string");
    }
}

pub(crate) fn check_flavor(flavor: &Text, findings: &mut Findings<'_>) {
    names::check_one_line("the flavor", flavor, findings);
}
