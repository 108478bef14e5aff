//! The host's side of the networks: address translation, and the way to the metadata.
//!
//! Everything is in one nftables table per root, replaced as a whole whenever the networks change.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{Daemon, forward, host, metadata, networks};
use crate::Result;
use crate::local::exec;

pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

impl Daemon {
    /// Makes the host's rules match the networks on record. The host is to be locked meanwhile.
    pub fn sync_firewall(&self) -> Result<()> {
        let ways = |n: &crate::Network| Ways {
            bridge: networks::bridge(&n.id),
            cidr: n.cidr,
            metadata_port: metadata::elsewhere(n).unwrap_or(self.metadata_port),
        };
        let networks: Vec<Ways> = self.world().networks.iter().map(ways).collect();
        let table = self.name_on_host();
        let bridges: Vec<_> = networks.iter().map(|network| network.bridge.clone()).collect();
        forward::allow(&bridges, &table)?;
        if networks.is_empty() {
            exec::nft(&format!("add table ip {table}\ndelete table ip {table}\n"))?;
            return host::restore();
        }
        host::prepare()?;
        exec::nft(&rules(&table, &networks))
    }
}

/// A network, as the host's rules see it.
struct Ways {
    bridge: String,
    cidr: Ipv4Net,
    /// Of the gateway.
    metadata_port: u16,
}

fn rules(table: &str, networks: &[Ways]) -> String {
    let [mut nat, mut metadata, mut direct, mut apart] = [const { String::new() }; 4];
    for Ways { bridge, cidr, metadata_port: port } in networks {
        let gateway = networks::gateway(*cidr);
        let _ = writeln!(nat, "  ip saddr {cidr} oifname != \"{bridge}\" masquerade");
        let _ = writeln!(
            metadata,
            "  iifname \"{bridge}\" ip daddr {METADATA} tcp dport 80 dnat to {gateway}:{port}"
        );
        // Nodes close the metadata address to their users; its listener has no other address that would be open to them.
        let _ =
            writeln!(direct, "  ip daddr {gateway} tcp dport {port} ct original ip daddr != {METADATA} drop");
        // Networks of different clusters do not meet, also not those of another root.
        let _ = writeln!(apart, "  iifname \"{bridge}\" oifname != \"{bridge}\" oifname \"kb*\" drop");
    }
    // Adding before deleting makes the deletion valid whether or not the table was there.
    format!(
        "add table ip {table}\ndelete table ip {table}\ntable ip {table} {{\n \
         chain postrouting {{\n  type nat hook postrouting priority srcnat;\n{nat} }}\n \
         chain prerouting {{\n  type nat hook prerouting priority dstnat;\n{metadata} }}\n \
         chain input {{\n  type filter hook input priority filter;\n{direct} }}\n \
         chain forward {{\n  type filter hook forward priority filter;\n{apart} }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_for_all_networks() {
        let network = |bridge: &str, cidr: &str, metadata_port| Ways {
            bridge: bridge.into(),
            cidr: cidr.parse().unwrap(),
            metadata_port,
        };
        let networks = [network("kb1", "10.213.1.0/24", 4000), network("kb2", "10.213.2.0/24", 4080)];
        let text = rules("kiln-x", &networks);
        assert_eq!(text.matches("masquerade").count(), 2);
        assert!(
            text.contains("iifname \"kb2\" ip daddr 169.254.169.254 tcp dport 80 dnat to 10.213.2.1:4080")
        );
        assert!(
            text.contains("ip daddr 10.213.1.1 tcp dport 4000 ct original ip daddr != 169.254.169.254 drop")
        );
    }
}
