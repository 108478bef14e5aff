//! Closes the metadata address to everyone but root: a node's keys can be read there for as long as it lives.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{BootError, say};
use crate::metadata::Origin;
use crate::{explain, process};

/// Adding the table before deleting it makes this work whether or not it was there. Forwarded packets are
/// those of containers, whatever the user inside.
const RULES: &str = "\
add table inet kiln_node
delete table inet kiln_node
table inet kiln_node {
  chain output {
    type filter hook output priority 0; policy accept;
    ip daddr 169.254.169.254 meta skuid != 0 drop
    ip6 daddr fe80::a9fe:a9fe meta skuid != 0 drop
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    ip daddr 169.254.169.254 drop
    ip6 daddr fe80::a9fe:a9fe drop
  }
}
";

/// A node without a packet filter is acceptable where nothing answers at the address.
pub(super) fn close(origin: Origin) -> Result<(), BootError> {
    let result = process::run(&["nft", "-f", "-"], Some(RULES), Duration::from_secs(30))
        .and_then(process::Output::checked);
    let Err(error) = result else { return Ok(()) };
    let reason = explain(&error);
    if origin == Origin::Address || answers() {
        return Err(BootError::Firewall(reason));
    }
    say(&format!("the metadata address is not closed to users, but nothing answers there: {reason}"));
    Ok(())
}

fn answers() -> bool {
    let address = SocketAddr::from((Ipv4Addr::new(169, 254, 169, 254), 80));
    std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}
