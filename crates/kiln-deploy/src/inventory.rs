//! The nodes with their addresses, instances and images, for people and for Ansible.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_wire::labels;
use serde::Serialize;

use crate::deployment::Deployment;
use crate::error::Result;
use crate::observe::Observed;
use crate::plan::group_label;
use crate::targets::targets;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InventoryReport {
    pub cluster: String,
    pub hosts: Vec<HostEntry>,
    #[serde(skip)]
    ssh_keys: Vec<String>,
    #[serde(skip)]
    known_hosts: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostEntry {
    pub name: String,
    pub role: String,
    /// `control`, `login.NAME`, `compute.NAME`.
    pub group: String,
    pub address: Option<String>,
    /// Where it is reached from outside the cluster's network, if it is.
    pub public_address: Option<String>,
    /// How ssh gets to a node without such an address.
    #[serde(skip)]
    through: Option<String>,
    pub instance_id: Option<String>,
    /// What it runs now.
    pub image_id: Option<String>,
    /// What it should run.
    pub target_image_id: Option<String>,
}

impl Deployment<'_> {
    pub fn inventory(&self, observed: &Observed) -> Result<InventoryReport> {
        let ssh = self.ssh()?;
        let instances = observed.nodes();
        let images = targets(self.spec, observed);
        let entry = |node: kiln_spec::Node<'_>| {
            let instance = instances.get(node.name).copied();
            let recorded = instance.and_then(|i| i.labels.get(labels::TARGET_IMAGE).cloned());
            let host = instance.and_then(|_| self.hosts(observed, std::iter::once(node.name)).ok()?.pop());
            HostEntry {
                public_address: instance.and_then(|i| i.public_address).map(|a| a.to_string()),
                through: host.and_then(|host| host.jump).map(|jump| ssh.through(&jump)),
                name: node.name.to_string(),
                role: node.role.as_str().to_string(),
                group: group_label(&node),
                address: instance.and_then(|i| i.address).map(|a| a.to_string()),
                instance_id: instance.map(|i| i.id.clone()),
                image_id: instance.and_then(|i| i.image.clone()),
                target_image_id: images.get(node.image).cloned().flatten().or(recorded),
            }
        };
        Ok(InventoryReport {
            cluster: self.spec.name.clone(),
            hosts: self.spec.nodes().map(entry).collect(),
            ssh_keys: ssh.keys.iter().map(|k| k.display().to_string()).collect(),
            known_hosts: ssh.known_hosts.display().to_string(),
        })
    }
}

impl InventoryReport {
    /// A static Ansible inventory in YAML. Values are written as JSON strings, which YAML reads as they are.
    pub fn ansible(&self) -> String {
        let text = |value: &str| serde_json::Value::from(value).to_string();
        let mut out = String::from("all:\n  vars:\n    ansible_user: root\n");
        if let Some(key) = self.ssh_keys.first() {
            let _ = writeln!(out, "    ansible_ssh_private_key_file: {}", text(key));
        }
        let common = format!(
            "-o UserKnownHostsFile=\"{}\" -o HostKeyAlias={{{{ inventory_hostname }}}}",
            self.known_hosts
        );
        let _ = writeln!(out, "    ansible_ssh_common_args: {}", text(&common));
        out.push_str("  hosts:\n");
        for host in &self.hosts {
            let _ = writeln!(out, "    {}:", text(&host.name));
            // In place of the common ones, which Ansible does not add to.
            let through =
                host.through.as_ref().map(|option| format!("{common} -o {}", kiln_ssh::quote(option)));
            let reached = if host.public_address.is_some() { &host.public_address } else { &host.address };
            let facts = [
                ("ansible_host", reached),
                ("ansible_ssh_common_args", &through),
                ("instance_id", &host.instance_id),
                ("image_id", &host.image_id),
                ("target_image_id", &host.target_image_id),
            ];
            for (key, value) in facts {
                if let Some(value) = value {
                    let _ = writeln!(out, "      {key}: {}", text(value));
                }
            }
        }
        out.push_str("  children:\n");
        for (group, members) in self.groups() {
            let _ = writeln!(out, "    {group}:\n      hosts:");
            for name in members {
                let _ = writeln!(out, "        {}: {{}}", text(name));
            }
        }
        out
    }

    /// Roles, and groups as `ROLE_NAME`: Ansible allows neither dots nor hyphens.
    fn groups(&self) -> BTreeMap<String, Vec<&str>> {
        let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for host in &self.hosts {
            // Ansible warns of a group that is named like a host; the host's name selects the same.
            if host.name == host.role {
                continue;
            }
            groups.entry(host.role.clone()).or_default().push(&host.name);
            if host.group != host.role {
                groups.entry(host.group.replace(['.', '-'], "_")).or_default().push(&host.name);
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ansible_gets_hosts_with_their_facts_and_groups() {
        let host = |name: &str, role: &str, group: &str| HostEntry {
            name: name.into(),
            role: role.into(),
            group: group.into(),
            address: Some("10.0.0.2".into()),
            public_address: None,
            through: None,
            instance_id: Some("i-1".into()),
            image_id: Some("image-1".into()),
            target_image_id: None,
        };
        let report = InventoryReport {
            cluster: "demo".into(),
            hosts: vec![host("control", "control", "control"), host("a-0", "compute", "compute.big-mem")],
            ssh_keys: vec!["/x/ssh-key".into()],
            known_hosts: "/x/known_hosts".into(),
        };
        insta::assert_snapshot!(report.ansible());
    }

    #[test]
    fn ansible_goes_through_the_node_with_a_public_address() {
        let host = |name: &str, public_address: Option<&str>, through: Option<&str>| HostEntry {
            name: name.into(),
            role: "login".into(),
            group: "login.l".into(),
            address: Some("10.0.0.2".into()),
            public_address: public_address.map(String::from),
            through: through.map(String::from),
            instance_id: None,
            image_id: None,
            target_image_id: None,
        };
        let proxy = "ProxyCommand=ssh -W [%h]:%p -i '/x/ssh key' 192.0.2.9";
        let report = InventoryReport {
            cluster: "demo".into(),
            hosts: vec![host("l-0", Some("192.0.2.9"), None), host("c-0", None, Some(proxy))],
            ssh_keys: Vec::new(),
            known_hosts: "/x/known_hosts".into(),
        };
        let text = report.ansible();
        assert!(text.contains("\"l-0\":\n      ansible_host: \"192.0.2.9\"\n"), "{text}");
        assert!(text.contains("\"c-0\":\n      ansible_host: \"10.0.0.2\"\n"), "{text}");
        let words =
            r"{{ inventory_hostname }} -o 'ProxyCommand=ssh -W [%h]:%p -i '\\''/x/ssh key'\\'' 192.0.2.9'";
        assert!(text.contains(words), "{text}");
    }
}
