//! topology.conf: which nodes are behind which switch, so that Slurm gives a job nodes that are near to one another. slurmctld and
//! slurmd read it again when Slurm is reconfigured, in every release.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_spec::{Role, Spec, hostlist};

use crate::inputs::Inventory;

pub const PLUGIN: (&str, &str) = ("TopologyPlugin", "topology/tree");

/// Joins what nothing else joins: a job cannot have nodes of two networks.
const TOP: &str = "kiln-top";
/// Has the nodes whose place nobody knows, or that come and go: without a switch no job with several nodes gets them.
const ELSEWHERE: &str = "kiln-elsewhere";

/// The file's text, if the place of any node is known and the site does not arrange it itself.
pub fn topology_conf(spec: &Spec, inventory: &Inventory) -> Option<String> {
    let own_files = &spec.roles.of(Role::Control).files;
    let is_own = |path: &str| path == "/etc/slurm/topology.conf" || path == "/etc/slurm/topology.yaml";
    let has_plugin = spec.slurm.config.keys().any(|key| key.eq_ignore_ascii_case(PLUGIN.0));
    if has_plugin || own_files.iter().any(|file| is_own(&file.path)) {
        return None;
    }
    let mut root = Switch::default();
    let mut known = false;
    for group in &spec.compute {
        for name in &group.nodes {
            let told = inventory.nodes.get(name).and_then(|facts| facts.switch.as_deref());
            let place = group.switch(name).or(told).filter(|place| !place.is_empty());
            known |= place.is_some();
            root.add(place.unwrap_or(&[ELSEWHERE.to_string()]), name);
        }
    }
    known.then(|| root.text())
}

#[derive(Debug, Default)]
struct Switch<'n> {
    below: BTreeMap<String, Switch<'n>>,
    nodes: Vec<&'n str>,
}

impl<'n> Switch<'n> {
    fn add(&mut self, path: &[String], node: &'n str) {
        match path {
            [] => self.nodes.push(node),
            [first, rest @ ..] => self.below.entry(first.clone()).or_default().add(rest, node),
        }
    }

    /// How many switches have each name.
    fn count<'s>(&'s self, names: &mut BTreeMap<&'s str, usize>) {
        for (name, switch) in &self.below {
            *names.entry(name).or_default() += 1;
            switch.count(names);
        }
    }

    fn text(&self) -> String {
        let mut names = BTreeMap::new();
        self.count(&mut names);
        let mut text = String::from(
            "# Written by Kiln: the switches of the nodes, from cluster.toml and from the cloud.\n",
        );
        let mut tops = Vec::new();
        for (name, switch) in &self.below {
            tops.push(switch.write(&[name], &names, &mut text));
        }
        if tops.len() > 1 {
            let _ = writeln!(text, "SwitchName={TOP} Switches={}", tops.join(","));
        }
        text
    }

    /// Returns its name. To Slurm the names of all switches are different, and a switch has either nodes or switches.
    fn write(&self, path: &[&str], names: &BTreeMap<&str, usize>, text: &mut String) -> String {
        let own = path.last().copied().unwrap_or(TOP);
        let name = if names.get(own) == Some(&1) { own.to_string() } else { path.join("-") };
        let mut below = Vec::new();
        for (own, switch) in &self.below {
            below.push(switch.write(&[path, &[own]].concat(), names, text));
        }
        let nodes = || hostlist::fold(self.nodes.iter().copied());
        if below.is_empty() {
            let _ = writeln!(text, "SwitchName={name} Nodes={}", nodes());
            return name;
        }
        if !self.nodes.is_empty() {
            let _ = writeln!(text, "SwitchName={name}-nodes Nodes={}", nodes());
            below.push(format!("{name}-nodes"));
        }
        let _ = writeln!(text, "SwitchName={name} Switches={}", below.join(","));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_a_tree_with_one_top() {
        let mut root = Switch::default();
        let places = [
            ("c-0", "core/rack-1"),
            ("c-1", "core/rack-1"),
            ("c-2", "core/rack-2"),
            ("c-3", "core"),
            ("d-0", "other/rack-1"),
            ("e-0", ELSEWHERE),
        ];
        for (node, path) in places {
            root.add(&path.split('/').map(String::from).collect::<Vec<_>>(), node);
        }
        let text = root.text();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "SwitchName=core-rack-1 Nodes=c-[0-1]",
                "SwitchName=rack-2 Nodes=c-2",
                "SwitchName=core-nodes Nodes=c-3",
                "SwitchName=core Switches=core-rack-1,rack-2,core-nodes",
                "SwitchName=kiln-elsewhere Nodes=e-0",
                "SwitchName=other-rack-1 Nodes=d-0",
                "SwitchName=other Switches=other-rack-1",
                "SwitchName=kiln-top Switches=core,kiln-elsewhere,other",
            ]
        );
    }

    #[test]
    fn one_switch_needs_no_other() {
        let mut root = Switch::default();
        root.add(&["rack-1".to_string()], "c-0");
        assert_eq!(root.text().lines().skip(1).collect::<Vec<_>>(), ["SwitchName=rack-1 Nodes=c-0"]);
    }
}
