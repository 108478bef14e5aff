//! Where the cluster runs: which keys belong to which kind of cloud, and what they may say.

use ipnet::Ipv4Net;

use super::names;
use crate::diagnostic::Findings;
use crate::tables::{CloudKind, CloudTable, RootDiskTable, ServerGroupPolicy};
use crate::units::size_gib;
use crate::words::and_list;
use crate::written::Text;
use crate::{CloudSpec, NetworkSpec, OpenStackSpec, RootDiskSpec};

pub(super) fn cloud(table: &CloudTable, subnet: Option<Ipv4Net>, findings: &mut Findings<'_>) -> CloudSpec {
    match table.kind.as_ref().map(|kind| kind.value) {
        Some(CloudKind::OpenStack) => openstack(table, subnet, findings),
        Some(CloudKind::Local) => {
            reject_others(table, findings);
            CloudSpec::Local { subnet }
        }
        // Its absence was reported; which keys would go with it cannot be known.
        None => CloudSpec::Local { subnet },
    }
}

/// Keys that the local cloud has no use for.
fn reject_others(table: &CloudTable, findings: &mut Findings<'_>) {
    let texts = [
        ("cloud", &table.cloud),
        ("region", &table.region),
        ("network", &table.network),
        ("external_network", &table.external_network),
        ("key_pair", &table.key_pair),
        ("availability_zone", &table.availability_zone),
    ];
    let mut found: Vec<(&str, std::ops::Range<usize>)> =
        texts.iter().filter_map(|(key, text)| Some((*key, text.as_ref()?.span.clone()))).collect();
    found.extend(table.root_disk.iter().map(|t| ("root_disk", t.at.clone())));
    found.extend(table.server_group.iter().map(|t| ("server_group", t.span.clone())));
    if !table.security_groups.value.is_empty() {
        found.push(("security_groups", table.security_groups.span.clone()));
    }
    for (key, span) in found {
        (findings.error("wrong-cloud", span, format!("the local cloud has no `{key}`")))
            .expected("`kind` and `subnet` alone")
            .hint("these belong to kind = \"openstack\"");
    }
}

fn openstack(table: &CloudTable, subnet: Option<Ipv4Net>, findings: &mut Findings<'_>) -> CloudSpec {
    let mut text = |what: &str, text: &Option<Text>| {
        let text = text.as_ref()?;
        names::check_one_line(&format!("`{what}`"), text, findings);
        Some(text.value.clone())
    };
    let spec = OpenStackSpec {
        cloud: text("cloud", &table.cloud),
        region: text("region", &table.region),
        external_network: text("external_network", &table.external_network),
        key_pair: text("key_pair", &table.key_pair),
        availability_zone: text("availability_zone", &table.availability_zone),
        network: match (text("network", &table.network), subnet) {
            (Some(name), subnet) => NetworkSpec::Existing { name, subnet },
            (None, Some(subnet)) => NetworkSpec::Own { subnet },
            (None, None) => {
                // One that was written but wrong has its own error.
                if table.subnet.is_none() {
                    let message = "the nodes have no network";
                    (findings.error("missing-key", table.at.clone(), message)).expected(
                        "`network = \"...\"`, one that exists, or `subnet = \"10.20.0.0/24\"` for one that Kiln makes",
                    );
                }
                NetworkSpec::Existing { name: String::new(), subnet: None }
            }
        },
        root_disk: table.root_disk.as_ref().and_then(|table| root_disk(table, findings)),
        server_group: table.server_group.as_ref().map(|policy| word(policy.value).to_owned()),
        security_groups: security_groups(table, findings),
    };
    CloudSpec::OpenStack(Box::new(spec))
}

fn root_disk(table: &RootDiskTable, findings: &mut Findings<'_>) -> Option<RootDiskSpec> {
    let size = table.size.as_ref()?;
    let volume_type = table.volume_type.as_ref().map(|text| {
        names::check_one_line("`type`", text, findings);
        text.value.clone()
    });
    match size_gib(&size.value) {
        Ok(size_gib) => Some(RootDiskSpec { size_gib, volume_type }),
        Err(expected) => {
            let message = format!("`{}` is not the size of a disk", size.value);
            findings.error("bad-size", size.span.clone(), message).expected(expected);
            None
        }
    }
}

fn word(policy: ServerGroupPolicy) -> &'static str {
    match policy {
        ServerGroupPolicy::Affinity => "affinity",
        ServerGroupPolicy::AntiAffinity => "anti-affinity",
        ServerGroupPolicy::SoftAffinity => "soft-affinity",
        ServerGroupPolicy::SoftAntiAffinity => "soft-anti-affinity",
    }
}

fn security_groups(table: &CloudTable, findings: &mut Findings<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in &table.security_groups.value {
        names::check_one_line("a security group", text, findings);
        if all.contains(&text.value) {
            let message = format!("{} stands here twice", and_list(&[&text.value]));
            findings.error("duplicate", text.span.clone(), message).expected("each once");
        }
        all.push(text.value.clone());
    }
    all
}
