//! The host's side of the networks: forwarding, address translation, and the way to the metadata.
//!
//! Everything is in one nftables table per root, replaced as a whole whenever the networks change.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use ipnet::Ipv4Net;

use super::{Daemon, forward, networks, store};
use crate::Result;
use crate::local::exec;

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

impl Daemon {
    /// Makes the host's rules match the networks on record.
    pub fn sync_firewall(&self) -> Result<()> {
        let networks: Vec<_> =
            self.world().networks.iter().map(|n| (networks::bridge(&n.id), n.cidr)).collect();
        let table = format!("kiln-{}", self.mark);
        let bridges: Vec<_> = networks.iter().map(|(bridge, _)| bridge.clone()).collect();
        forward::allow(&bridges, &table)?;
        if networks.is_empty() {
            exec::nft(&format!("add table ip {table}\ndelete table ip {table}\n"))?;
            return self.restore_forwarding();
        }
        self.enable_forwarding()?;
        exec::nft(&rules(&table, &networks, self.port))
    }

    fn forwarding_note(&self) -> PathBuf {
        self.root.join("forwarding-was-off")
    }

    fn enable_forwarding(&self) -> Result<()> {
        let failed = |e| crate::Error::Failed(format!("{FORWARD}: {e}"));
        if std::fs::read_to_string(FORWARD).map_err(failed)?.trim() == "0" {
            store::write_file(&self.forwarding_note(), b"")?;
            std::fs::write(FORWARD, "1").map_err(failed)?;
        }
        Ok(())
    }

    fn restore_forwarding(&self) -> Result<()> {
        let note = self.forwarding_note();
        if !note.exists() {
            return Ok(());
        }
        // Another root's instances may rely on it by now.
        let others = exec::run("nft", &["list", "tables", "ip"], "")?;
        if !others.lines().any(|line| line.contains(" kiln-")) {
            let _ = std::fs::write(FORWARD, "0");
        }
        store::remove_file(&note)
    }
}

fn rules(table: &str, networks: &[(String, Ipv4Net)], port: u16) -> String {
    let (mut nat, mut metadata, mut apart) = (String::new(), String::new(), String::new());
    for (bridge, cidr) in networks {
        let gateway = networks::gateway(*cidr);
        let _ = writeln!(nat, "  ip saddr {cidr} oifname != \"{bridge}\" masquerade");
        let _ = writeln!(
            metadata,
            "  iifname \"{bridge}\" ip daddr {METADATA} tcp dport 80 dnat to {gateway}:{port}"
        );
        // Networks of different clusters do not meet, also not those of another root.
        let _ = writeln!(apart, "  iifname \"{bridge}\" oifname != \"{bridge}\" oifname \"kb*\" drop");
    }
    // Adding before deleting makes the deletion valid whether or not the table was there.
    format!(
        "add table ip {table}\ndelete table ip {table}\ntable ip {table} {{\n \
         chain postrouting {{\n  type nat hook postrouting priority srcnat;\n{nat} }}\n \
         chain prerouting {{\n  type nat hook prerouting priority dstnat;\n{metadata} }}\n \
         chain forward {{\n  type filter hook forward priority filter;\n{apart} }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_for_all_networks() {
        let networks = [
            ("kb1".to_string(), "10.213.1.0/24".parse().unwrap()),
            ("kb2".to_string(), "10.213.2.0/24".parse().unwrap()),
        ];
        let text = rules("kiln-x", &networks, 4000);
        assert_eq!(text.matches("masquerade").count(), 2);
        assert!(
            text.contains("iifname \"kb2\" ip daddr 169.254.169.254 tcp dport 80 dnat to 10.213.2.1:4000")
        );
    }
}
