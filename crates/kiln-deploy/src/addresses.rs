//! Addresses of nodes that come and go. Each is kept for its node while that is away, so that a node's name means the
//! same everywhere at all times: in `/etc/hosts`, to Slurm and to SSH.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use kiln_spec::Spec;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::observe::Observed;

/// Nodes of elastic groups by name. One that is there has the address it has; the others get one that depends on
/// their name alone, as far as that is free, so that it stays theirs when nodes are added to the file.
pub fn kept_addresses(spec: &Spec, observed: &Observed) -> Result<BTreeMap<String, IpAddr>> {
    let instances = observed.nodes();
    let mut kept: BTreeMap<String, IpAddr> = BTreeMap::new();
    let mut away: Vec<&str> = Vec::new();
    for node in spec.nodes().filter(|node| node.elastic) {
        let there = instances.get(node.name).and_then(|instance| instance.address);
        match node.address.or(there) {
            Some(address) => _ = kept.insert(node.name.to_string(), address),
            None => away.push(node.name),
        }
    }
    if away.is_empty() {
        return Ok(kept);
    }
    let network =
        observed.networks.first().ok_or_else(|| Error::NotReady("the network is missing".into()))?;
    let mut taken: BTreeSet<IpAddr> = observed.instances.iter().filter_map(|i| i.address).collect();
    taken.extend(spec.nodes().filter_map(|node| node.address));
    let fixed = spec.nodes().count() - away.len();
    let pool = Pool::of(network.cidr, fixed, away.len())
        .ok_or_else(|| Error::NotReady(format!("the network {} has no room for all nodes", network.cidr)))?;
    away.sort_unstable();
    for name in away {
        let address = pool.pick(name, &taken).ok_or_else(|| {
            Error::NotReady(format!("the network {} has no address left for {name}", network.cidr))
        })?;
        taken.insert(address);
        kept.insert(name.to_string(), address);
    }
    Ok(kept)
}

/// The part of a network that clouds, which give addresses from the bottom up, reach last.
struct Pool {
    first: u32,
    size: u32,
}

impl Pool {
    fn of(cidr: Ipv4Net, fixed: usize, elastic: usize) -> Option<Pool> {
        let lowest = u32::from(cidr.network());
        let end = u32::from(cidr.broadcast());
        // The network itself and the gateway.
        let hosts = end.checked_sub(lowest + 2)?;
        let (fixed, elastic) = (u32::try_from(fixed).ok()?, u32::try_from(elastic).ok()?);
        if fixed + elastic > hosts {
            return None;
        }
        // Three quarters, or what is needed.
        let size = (hosts - hosts / 4).max(elastic);
        Some(Pool { first: end - size, size })
    }

    fn pick(&self, name: &str, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        let digest = Sha256::digest(name);
        let start = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) % self.size;
        (0..self.size)
            .map(|step| IpAddr::from(Ipv4Addr::from(self.first + (start + step) % self.size)))
            .find(|address| !taken.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(nodes: &str) -> Result<BTreeMap<String, IpAddr>> {
        let text = format!(
            "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.e]\nnodes = \"{nodes}\"\nelastic = {{}}\n"
        );
        let spec = kiln_spec::parse(&text, "f").unwrap();
        let network = kiln_cloud::Network {
            id: "n".into(),
            name: "c".into(),
            cidr: "10.1.2.0/24".parse().unwrap(),
            labels: kiln_cloud::Labels::new(),
            lacks: None,
            api_url: None,
        };
        kept_addresses(&spec, &Observed { networks: vec![network], ..Observed::default() })
    }

    #[test]
    fn an_address_stays_when_nodes_are_added() {
        let few = addresses("e-[0-3]").unwrap();
        let more = addresses("e-[0-9]").unwrap();
        let same = few.iter().filter(|(name, address)| more[*name] == **address).count();
        assert_eq!((few.len(), more.len(), same), (4, 10, 4));
    }

    #[test]
    fn no_address_is_given_twice_nor_outside() {
        let all = addresses("e-[1-252]").unwrap();
        let different: BTreeSet<_> = all.values().collect();
        assert_eq!(different.len(), 252);
        let net: Ipv4Net = "10.1.2.0/24".parse().unwrap();
        for address in different {
            let IpAddr::V4(v4) = address else { panic!() };
            assert!(
                net.contains(v4) && *v4 != net.broadcast() && u32::from(*v4) > u32::from(net.network()) + 1
            );
        }
    }

    #[test]
    fn a_network_that_is_too_small_says_so() {
        let error = addresses("e-[1-300]").unwrap_err().to_string();
        assert!(error.contains("no room"), "{error}");
    }
}
