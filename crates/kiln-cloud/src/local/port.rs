//! An instance's network: a namespace, a cable to the bridge, an address, and the security groups' rules.
//!
//! The rules are in the instance's own namespace, so its root could lift them: they keep others out, they
//! do not guard against the instance itself. At the host's end of the cable an instance has its own address and no other one:
//! the metadata knows who asks by that.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use std::net::IpAddr;

use ipnet::IpNet;

use super::exec;
use super::plan::Port;
use crate::{Peers, Result, Rule};

/// What the kernel calls a member of a bridge that packets pass through.
const FORWARDING: &str = "3";
const FORWARDING_WITHIN: Duration = Duration::from_secs(2);

/// Makes the port as new: whatever a previous boot left in the namespace is gone, as on a real machine.
pub fn plug(port: &Port) -> Result<()> {
    unplug(port);
    let Port { netns, link, owner, bridge, mac, address, prefix, gateway, .. } = port;
    exec::ip(&format!(
        "netns add {netns}\n\
         link add {link} type veth peer name eth0 address {mac} netns {netns}\n\
         link set {link} alias {owner} master {bridge} up\n"
    ))?;
    exec::nft(&own_address_only(port))?;
    // The address may have been another instance's. The host forgets it here; see `announce` for the others.
    exec::ip_force(&format!("neigh flush to {address} dev {bridge}\n"));
    let notify = "/proc/sys/net/ipv4/conf/eth0/arp_notify";
    exec::run("ip", &["netns", "exec", netns, "tee", notify], "1")?;
    // Inside, the rules come before the address: there is no moment without them.
    exec::nft_in(netns, &security_rules(&port.rules, own_network(port)))?;
    exec::run(
        "ip",
        &["-n", netns, "-batch", "-"],
        &format!(
            "link set lo up\n\
             address add {address}/{prefix} dev eth0\n\
             link set eth0 up\n\
             route add default via {gateway}\n"
        ),
    )
    .map(drop)
}

/// Tells the neighbours whose the address is now: they remember a previous owner for most of a minute.
pub fn announce(port: &Port) {
    let Port { netns, link, mac, .. } = port;
    // The bridge notices the cable a moment after it is plugged in, and drops what comes before.
    let state = std::path::Path::new("/sys/class/net").join(link).join("brport/state");
    let end = Instant::now() + FORWARDING_WITHIN;
    while std::fs::read_to_string(&state).is_ok_and(|s| s.trim() != FORWARDING) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Setting the hardware address, though it is the same, makes the kernel announce it.
    let set = ["-n", netns, "link", "set", "eth0", "address", mac];
    if let Err(error) = exec::run("ip", &set, "") {
        tracing::debug!(%error, "cannot announce the address");
    }
}

/// Removes the port; it may be there in part or not at all.
pub fn unplug(port: &Port) {
    unplug_named(&port.netns, &port.link);
}

pub fn unplug_named(netns: &str, link: &str) {
    let link_there = std::path::Path::new("/sys/class/net").join(link).exists();
    let netns_there = std::path::Path::new("/run/netns").join(netns).exists();
    // The link first, by itself: the kernel takes namespaces down later, and the name must be free now.
    if link_there {
        exec::ip_force(&format!("link del {link}\n"));
    }
    // The kernel leaves the table of a link that is gone.
    if (link_there || netns_there)
        && let Err(error) = exec::nft(&without_table(netns))
    {
        tracing::debug!(%error, "nft");
    }
    if netns_there {
        exec::ip_force(&format!("netns del {netns}\n"));
    }
}

fn own_network(port: &Port) -> IpNet {
    IpNet::new(port.address.into(), port.prefix).unwrap_or_else(|_| IpAddr::from(port.address).into())
}

/// Adding before deleting makes the deletion valid whether or not the table was there.
fn without_table(table: &str) -> String {
    format!("add table netdev {table}\ndelete table netdev {table}\n")
}

/// In a table that is named like the instance's namespace.
fn own_address_only(port: &Port) -> String {
    let Port { netns, link, address, .. } = port;
    format!(
        "{}table netdev {netns} {{\n chain own {{\n  type filter hook ingress device \"{link}\" priority 0;\n  \
         ip saddr != {address} drop\n  arp saddr ip != {address} drop\n }}\n}}\n",
        without_table(netns)
    )
}

/// What comes in: answers, loopback, ICMP, what the rules allow. Nothing else.
fn security_rules(rules: &[Rule], own: IpNet) -> String {
    let mut text = String::from(
        "table inet kiln_sg {\n chain input {\n  type filter hook input priority -10; policy drop;\n  \
         ct state established,related accept\n  iifname \"lo\" accept\n  \
         meta l4proto { icmp, ipv6-icmp } accept\n",
    );
    for rule in rules {
        let from = match rule.from {
            Peers::Net(net) => net.trunc(),
            // A network here is one cluster's alone.
            Peers::Members => own.trunc(),
        };
        let family = match from {
            IpNet::V4(_) => "ip",
            IpNet::V6(_) => "ip6",
        };
        let port = rule.tcp_port.map(|port| format!(" tcp dport {port}")).unwrap_or_default();
        let _ = writeln!(text, "  {family} saddr {from}{port} accept");
    }
    text.push_str(" }\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_nft() {
        let net = |text: &str| Peers::Net(text.parse().unwrap());
        let rules = [
            Rule { from: net("10.0.0.7/8"), tcp_port: None },
            Rule { from: net("0.0.0.0/0"), tcp_port: Some(22) },
            Rule { from: net("::/0"), tcp_port: Some(22) },
            Rule { from: Peers::Members, tcp_port: None },
        ];
        let text = security_rules(&rules, "10.7.0.9/24".parse().unwrap());
        assert!(text.contains("\n  ip saddr 10.7.0.0/24 accept\n"));
        assert!(text.contains("policy drop"));
        assert!(text.contains("\n  ip saddr 10.0.0.0/8 accept\n"));
        assert!(text.contains("\n  ip saddr 0.0.0.0/0 tcp dport 22 accept\n"));
        assert!(text.contains("\n  ip6 saddr ::/0 tcp dport 22 accept\n"));
    }
}
