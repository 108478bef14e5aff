//! What slurm.conf says about powering nodes up and down.

use std::time::Duration;

use kiln_spec::{Elastic, Group, Node, Partition, Spec, hostlist};

use kiln_wire::paths::hook;

use crate::inputs::Inventory;

/// How long a deleted instance may linger. Until it is over Slurm does not power the node up again.
const SUSPEND_TIMEOUT_SECONDS: u32 = 30;

pub fn is_elastic(spec: &Spec) -> bool {
    spec.compute.iter().any(|group| group.elastic.is_some())
}

pub fn parameters(spec: &Spec) -> Vec<(&'static str, String)> {
    let elastic = is_elastic(spec);
    if !elastic && spec.rebuild.is_empty() {
        return Vec::new();
    }
    // Also where no group is elastic: Slurm forgets over a restart of slurmctld that a node is being rebooted, unless
    // it could power nodes up and down.
    let mut own = vec![
        ("ResumeProgram", hook::RESUME.to_string()),
        ("SuspendProgram", hook::SUSPEND.into()),
        ("SuspendTime", longest_idle(spec).map_or("INFINITE".into(), |idle| idle.as_secs().to_string())),
    ];
    if elastic {
        own.extend([
            ("ResumeFailProgram", hook::RESUME_FAIL.to_string()),
            ("SuspendTimeout", SUSPEND_TIMEOUT_SECONDS.to_string()),
            // No limit: kilnd itself asks the cloud for as many at a time as it takes.
            ("ResumeRate", "0".into()),
            ("SuspendRate", "0".into()),
            // Nodes that are powered down are shown all the same.
            ("PrivateData", "cloud".into()),
        ]);
        let kept = kept_up(spec);
        if !kept.is_empty() {
            own.push(("SuspendExcNodes", hostlist::fold(kept)));
        }
    }
    own
}

/// Nodes that Slurm must never power down: all of fixed groups, the first ones of elastic groups with a minimum.
fn kept_up(spec: &Spec) -> Vec<&str> {
    let kept = |group: &'_ Group| group.elastic.as_ref().map_or(group.nodes.len(), |elastic| elastic.min);
    spec.compute.iter().flat_map(|g| g.nodes.iter().take(kept(g)).map(String::as_str)).collect()
}

fn longest_idle(spec: &Spec) -> Option<Duration> {
    spec.compute.iter().filter_map(|group| group.elastic.as_ref()).map(|elastic| elastic.idle).max()
}

/// Slurm takes a node's idle time from its partitions where they have one of their own, else the global one.
pub fn suspend_time(spec: &Spec, partition: &Partition) -> Option<u64> {
    let groups = partition.groups.iter().filter_map(|name| spec.compute_group(name));
    let longest = groups.filter_map(|g| g.elastic.as_ref()).map(|elastic: &Elastic| elastic.idle).max()?;
    let written = partition.config.keys().any(|key| key.eq_ignore_ascii_case("SuspendTime"));
    (Some(longest) != longest_idle(spec) && !written).then_some(longest.as_secs())
}

/// The file's own; for nodes that do not exist yet what a job might choose them by; what the cloud says of their flavor;
/// what jobs that rebuild nodes have to ask for.
pub fn features(group: &Group, node: &Node<'_>, inventory: &Inventory) -> Vec<String> {
    let of_flavor = inventory.nodes.get(node.name).map(|facts| facts.features.as_slice()).unwrap_or_default();
    let mut features = node.features.to_vec();
    if node.elastic {
        features.push(format!("shape={}", plain(node.flavor)));
        // With several zones it is known only when the node is there.
        if let [zone] = group.zones.as_slice() {
            features.push(format!("zone={}", plain(zone)));
        }
        if !of_flavor.iter().any(|feature| feature.starts_with("arch=")) {
            features.push(format!("arch={}", inventory.architecture));
        }
    }
    let of_release = inventory.release.reboot_constraint().map(String::from);
    for feature in of_flavor.iter().map(|feature| plain(feature)).chain(of_release) {
        if !features.contains(&feature) {
            features.push(feature);
        }
    }
    features
}

/// Clouds allow names that slurm.conf would read as several words.
fn plain(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '=');
    name.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}
