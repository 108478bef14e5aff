//! Keys that several kinds of cloud have and that are about networks.

use ipnet::Ipv4Net;

use super::CloudTable;
use crate::diagnostic::Findings;
use crate::written::{List, Text};

/// That Kiln makes a network, where the file names none. `existing`: what it could name.
pub(super) fn check_subnet(cloud: &CloudTable, existing: &str, findings: &mut Findings<'_>) {
    // A subnet that was written but wrong has its own error.
    if cloud.subnet.is_none() {
        (findings.error("missing-key", cloud.at.clone(), "the nodes have no network")).expected(format!(
            "`network = \"...\"`, {existing}, or `subnet = \"10.20.0.0/24\"` for one that Kiln makes",
        ));
    }
}

/// Who may connect to login nodes.
pub(super) fn ssh_from(list: &List<Text>, findings: &mut Findings<'_>) -> Vec<Ipv4Net> {
    if list.value.is_empty() {
        (findings.error("bad-network", list.span.clone(), "nobody could log in, not even Kiln"))
            .expected("at least one network, or no `ssh_from`");
    }
    list.value.iter().filter_map(|text| ipv4_net(text, findings)).collect()
}

pub(crate) fn ipv4_net(text: &Text, findings: &mut Findings<'_>) -> Option<Ipv4Net> {
    let parsed = text.value.parse::<Ipv4Net>().ok();
    if let Some(net) = parsed.filter(|net| net.addr() == net.network()) {
        return Some(net);
    }
    let message = format!("`{}` is not an IPv4 network", text.value);
    (findings.error("bad-network", text.span.clone(), message))
        .expected("a network such as \"192.0.2.0/24\", or one address: \"192.0.2.7/32\"")
        .maybe_hint(parsed.map(|net| format!("did you mean `{}`?", net.trunc())));
    None
}
