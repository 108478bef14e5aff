//! How many nodes the cloud has room for, and what that means for `[limits]` of the file.

use std::collections::{BTreeMap, BTreeSet};

use kiln_cloud::{Instance, Limit};
use kiln_spec::{Group, NodeCounts, Spec, is_same_zone};
use kiln_wire::labels;

use crate::deployment::Deployment;
use crate::error::Result;

/// As many as a group made from limits can have.
const MOST: u64 = 9999;

impl Deployment<'_> {
    /// Of these flavors, or of all that the file names.
    pub async fn limits(&self, flavors: &[String]) -> Result<Vec<Limit>> {
        let of_file;
        let wanted = if flavors.is_empty() {
            of_file = flavors_of(self.spec);
            &of_file
        } else {
            flavors
        };
        Ok(self.cloud.limits(wanted).await?)
    }

    /// What `[limits]` can say: the room that is left, with what the groups made from it use now, without what nodes of
    /// the file will take that always run and do not exist yet.
    pub async fn node_counts(&self, flavors: &[String]) -> Result<NodeCounts> {
        let all: BTreeSet<String> = flavors.iter().cloned().chain(flavors_of(self.spec)).collect();
        let limits = self.cloud.limits(&all.into_iter().collect::<Vec<_>>()).await?;
        let there = match limits.as_slice() {
            [] => Vec::new(),
            _ => self.cloud.instances(&self.spec.name).await?,
        };
        Ok(counts(self.spec, flavors, &limits, &there))
    }
}

fn flavors_of(spec: &Spec) -> Vec<String> {
    let of_nodes = spec.nodes().map(|node| node.flavor.to_string());
    let others = spec.compute.iter().filter_map(|group| group.elastic.as_ref());
    let all: BTreeSet<String> = of_nodes.chain(others.flat_map(|elastic| elastic.flavors.clone())).collect();
    all.into_iter().collect()
}

fn counts(spec: &Spec, flavors: &[String], limits: &[Limit], there: &[Instance]) -> NodeCounts {
    let first = limits.iter().find_map(|limit| limit.zone.as_deref());
    let mut counts = NodeCounts::new();
    for flavor in flavors {
        let own: Vec<&Limit> = limits.iter().filter(|limit| limit.flavor == *flavor).collect();
        let zones: BTreeSet<&str> = own.iter().filter_map(|limit| limit.zone.as_deref()).collect();
        let rooms = zones.into_iter().map(|zone| {
            let here = own.iter().filter(|limit| limit.zone.as_deref().is_none_or(|z| z == zone));
            let room = here.map(|limit| {
                let free = limit.free.saturating_sub(reserved(spec, limit, limits, there, first));
                free / limit.each.max(1)
            });
            let group = spec.compute.iter().find(|group| is_group_of(group, flavor, zone));
            let used = group.map_or(0, |group| nodes_of(group, there));
            (zone.to_string(), (room.min().unwrap_or(0) + used).min(MOST))
        });
        let rooms: BTreeMap<String, u64> = rooms.collect();
        counts.insert(flavor.clone(), rooms);
    }
    counts
}

fn is_group_of(group: &Group, flavor: &str, zone: &str) -> bool {
    group.flavor == flavor && group.zones.len() == 1 && is_same_zone(&group.zones[0], zone)
}

fn nodes_of(group: &Group, there: &[Instance]) -> u64 {
    let label = format!("compute.{}", group.name);
    there.iter().filter(|instance| instance.labels.get(labels::GROUP) == Some(&label)).count() as u64
}

/// What nodes that always run will take of a limit. Without a zone of their own they are in the first, as far as anybody
/// knows.
fn reserved(spec: &Spec, of: &Limit, limits: &[Limit], there: &[Instance], first: Option<&str>) -> u64 {
    let exists = |name: &str| {
        there.iter().any(|instance| instance.labels.get(labels::NODE).is_some_and(|node| node == name))
    };
    let to_come = spec.nodes().filter(|node| !node.elastic && !exists(node.name));
    let here = to_come.filter(|node| match (node.zone, of.zone.as_deref()) {
        (Some(zone), Some(here)) => is_same_zone(zone, here),
        (None, Some(here)) => Some(here) == first,
        (_, None) => true,
    });
    let each = here.filter_map(|node| {
        let same = |l: &&Limit| l.flavor == node.flavor && l.name == of.name && l.zone == of.zone;
        limits.iter().find(same).map(|limit| limit.each)
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use kiln_cloud::testing;

    use super::*;

    fn spec() -> Spec {
        let text = "[cluster]\nname = \"x\"\n\n[cloud]\nkind = \"oci\"\ncompartment = \"ocid1.compartment.oc1..a\"\n\
                    subnet = \"10.0.0.0/24\"\n\n[image.default]\nprebuilt = \"i\"\n\n[control]\nflavor = \"F.4\"\n\n\
                    [limits.\"F.2\"]\nzones = { AD-1 = 3, ad2 = 1 }\n";
        kiln_spec::parse(text, "cluster.toml").unwrap()
    }

    fn limit(flavor: &str, zone: &str, free: u64, each: u64) -> Limit {
        let (name, used) = ("core-count".into(), Some(0));
        Limit { flavor: flavor.into(), zone: Some(zone.into()), name, most: 100, used, free, each }
    }

    #[test]
    fn own_nodes_are_added_and_those_to_come_are_left_out() {
        let (spec, flavors) = (spec(), ["F.2".to_string()]);
        let limits = [
            limit("F.2", "ad1", 11, 2),
            limit("F.2", "ad2", 11, 2),
            limit("F.4", "ad1", 11, 4),
            limit("F.4", "ad2", 11, 4),
        ];
        let numbers = |there: &[Instance]| -> Vec<u64> {
            counts(&spec, &flavors, &limits, there)["F.2"].values().copied().collect()
        };
        // The control node will be in the first zone.
        assert_eq!(numbers(&[]), [3, 5]);
        let mut node = testing::instance("one");
        node.labels.insert(labels::GROUP.into(), "compute.f-2-ad-1".into());
        let mut control = testing::instance("control");
        control.labels.insert(labels::NODE.into(), "control".into());
        assert_eq!(numbers(&[node, control]), [6, 5]);
    }

    #[test]
    fn the_narrowest_limit_counts() {
        let mut memory = limit("F.2", "ad2", 7, 4);
        memory.name = "memory-count".into();
        let limits = [limit("F.2", "ad2", 50, 2), memory];
        assert_eq!(counts(&spec(), &["F.2".to_string()], &limits, &[])["F.2"]["ad2"], 1);
    }
}
