//! What the official client lists in the project of the tests.

use serde_json::Value;

use crate::client::ask;

/// What commands of the official client answer.
pub fn openstack(commands: &[&str]) -> Vec<Value> {
    ask("demo", commands)
}

/// Everything of a cluster but access rules. `subnet`: what addresses of its nodes begin with.
pub fn leftovers(cluster: &str, subnet: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (list, rows) in LISTS.iter().zip(openstack(LISTS)) {
        for row in rows.as_array().into_iter().flatten() {
            let text = row.to_string();
            if text.contains(cluster) || text.contains(subnet) {
                found.push(format!("{list}: {text}"));
            }
        }
    }
    found
}

const LISTS: &[&str] = &[
    "server list --long",
    "port list --long",
    "network list --internal",
    "subnet list",
    "router list",
    "security group list",
    "floating ip list --long",
    "volume list --long",
    "volume snapshot list",
    "image list --private",
    "keypair list",
    "server group list",
    "application credential list",
];

/// These say nothing of whose they are.
pub const ACCESS_RULES: &str = "access rule list";

pub fn access_rules() -> Vec<Value> {
    openstack(&[ACCESS_RULES]).remove(0).as_array().cloned().unwrap_or_default()
}
