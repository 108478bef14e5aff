//! The cloud's subnet and the addresses in it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::Group;
use crate::diagnostic::Findings;
use crate::hostlist;
use crate::merge::Merged;
use crate::tables::CloudTable;
use crate::written::Text;

/// Network, gateway and broadcast.
const NOT_FOR_NODES: u64 = 3;

pub(crate) fn subnet(cloud: &CloudTable, findings: &mut Findings<'_>) -> Option<Ipv4Net> {
    let text = cloud.subnet.as_ref()?;
    let mut wrong = |message: String, hint: Option<String>| {
        (findings.error("bad-subnet", text.span.clone(), message))
            .expected("a private IPv4 network from /16 to /28, e.g. \"10.213.7.0/24\"")
            .maybe_hint(hint);
        None
    };
    let Ok(net) = text.value.parse::<Ipv4Net>() else {
        return wrong(format!("`{}` is not an IPv4 network", text.value), None);
    };
    if net.addr() != net.network() {
        let hint = format!("did you mean `{}`?", net.trunc());
        return wrong(format!("`{net}` has bits set after its prefix"), Some(hint));
    }
    // A smaller one has hardly an address for a node.
    if cloud.chooses_subnet() && net.prefix_len() <= 29 {
        return Some(net);
    }
    if !(16..=28).contains(&net.prefix_len()) {
        let size = if net.prefix_len() < 16 { "large" } else { "small" };
        return wrong(format!("`{net}` is too {size}"), None);
    }
    if !(net.network().is_private() && net.broadcast().is_private()) {
        return wrong(
            format!("`{net}` is not private"),
            Some("private are 10.0.0.0/8, 172.16.0.0/12 and 192.168.0.0/16".to_owned()),
        );
    }
    Some(net)
}

pub(crate) fn address(text: &Text, findings: &mut Findings<'_>) -> Option<Ipv4Addr> {
    let address = text.value.parse().ok();
    if address.is_none() {
        (findings.error(
            "bad-address",
            text.span.clone(),
            format!("`{}` is not an IPv4 address", text.value),
        ))
        .expected("an address such as \"10.213.7.20\"");
    }
    address
}

/// Checks that the nodes fit the subnet and that fixed addresses lie in it, each used once.
pub(crate) fn check_addresses(
    merged: &Merged,
    subnet: Option<Ipv4Net>,
    login: &[Group],
    compute: &[Group],
    findings: &mut Findings<'_>,
) {
    if let (Some(net), Some(text)) = (subnet, &merged.cloud.subnet) {
        let nodes = 1 + login.iter().chain(compute).map(|group| group.nodes.len() as u64).sum::<u64>();
        let room = (1_u64 << (32 - net.prefix_len())) - NOT_FOR_NODES;
        if nodes > room {
            (findings.error(
                "subnet-full",
                text.span.clone(),
                format!("`{net}` has room for {room} nodes, the cluster has {nodes}"),
            ))
            .expected(format!("a network of /{} or larger", prefix_for(nodes)));
        }
    }
    let mut used: BTreeMap<Ipv4Addr, &Text> = BTreeMap::new();
    for (key, table) in merged.login.iter().chain(&merged.compute).flat_map(|group| &group.table.overrides) {
        let Some(text) = &table.address else { continue };
        let Ok(address) = text.value.parse::<Ipv4Addr>() else {
            continue;
        };
        check_place(address, text, merged, subnet, findings);
        let nodes = hostlist::expand(&key.value).map_or(1, |nodes| nodes.len());
        if nodes > 1 {
            (findings.error(
                "duplicate-address",
                text.span.clone(),
                format!("{nodes} nodes cannot share the address {address}"),
            ))
            .expected("an override for a single node")
            .related(key.span.clone(), format!("{nodes} nodes"));
        } else if let Some(first) = used.insert(address, text) {
            (findings.error(
                "duplicate-address",
                text.span.clone(),
                format!("the address {address} is given twice"),
            ))
            .expected("a unique address")
            .related(first.span.clone(), "first here");
        }
    }
}

fn check_place(
    address: Ipv4Addr,
    text: &Text,
    merged: &Merged,
    subnet: Option<Ipv4Net>,
    findings: &mut Findings<'_>,
) {
    let Some(net) = subnet else {
        // A subnet that was written but wrong has its own error.
        if merged.cloud.subnet.is_none() {
            (findings.error("bad-address", text.span.clone(), "a fixed address needs a fixed subnet"))
                .expected("`subnet = \"...\"` in [cloud]");
        }
        return;
    };
    let gateway = Ipv4Addr::from(u32::from(net.network()) + 1);
    let taken = [
        (net.network(), "the network itself"),
        (gateway, "the gateway"),
        (net.broadcast(), "the broadcast address"),
    ];
    if !net.contains(&address) {
        (findings.error("bad-address", text.span.clone(), format!("{address} is outside the subnet {net}")))
            .expected(format!("an address in {net}"));
    } else if let Some((_, what)) = taken.iter().find(|(taken, _)| *taken == address) {
        (findings.error("bad-address", text.span.clone(), format!("{address} is {what} of {net}")))
            .expected("another address of the subnet");
    }
}

/// The longest prefix with room for that many nodes.
fn prefix_for(nodes: u64) -> u32 {
    32 - (nodes + NOT_FOR_NODES).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    /// Kiln makes small private ones; those that exist are what they are.
    #[test]
    fn any_subnet_of_a_network_that_exists_may_be_chosen() {
        let file = |network: &str, subnet: &str| {
            let text = format!(
                "[cluster]\nname = \"c\"\n[cloud]\nkind = \"openstack\"\n{network}subnet = \"{subnet}\"\n\
                 [image.default]\nprebuilt = \"x\"\n[control]\nflavor = \"f\"\n\
                 [compute.e]\nnodes = \"e-0\"\nflavor = \"f\"\n"
            );
            crate::parse(&text, "f").is_ok()
        };
        for subnet in ["192.0.2.0/24", "10.0.0.0/12", "10.0.0.0/29"] {
            assert!(file("network = \"theirs\"\n", subnet), "{subnet}");
            assert!(!file("", subnet), "{subnet}");
        }
        for wrong in ["192.0.2.1/24", "10.0.0.0/30", "10.0.0.1/32"] {
            assert!(!file("network = \"theirs\"\n", wrong), "{wrong}");
        }
    }
}
