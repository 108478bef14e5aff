//! Addresses of elastic nodes. Each is reserved for its node while that is powered down, so that a node's name means the
//! same everywhere at all times: in `/etc/hosts`, to Slurm and to SSH.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use kiln_cloud::{AddressRange, Network};
use kiln_spec::Spec;
use kiln_wire::labels;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::observe::Observed;

/// The addresses of elastic nodes, by name. A node with an instance has the address of that; the others get one that
/// depends on their name alone, as far as it is free, so that it stays the same when nodes are added to the file.
pub fn reserved_addresses(spec: &Spec, observed: &Observed) -> Result<BTreeMap<String, IpAddr>> {
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
    taken.extend(observed.foreign.keys());
    let fixed = spec.nodes().count() - away.len();
    let pool = Pool::of(network.cidr, fixed, away.len())
        .ok_or_else(|| Error::NotReady(format!("the network {} has no room for all nodes", network.cidr)))?;
    away.sort_unstable();
    for name in away {
        let free = |address: IpAddr| !taken.contains(&address);
        let address = pool.pick(name, |address| free(address) && is_fit(spec, network, address));
        // An address that the cloud might assign is better than none.
        let address = address.or_else(|| pool.pick(name, free)).ok_or_else(|| {
            Error::NotReady(format!("the network {} has no address left for {name}", network.cidr))
        })?;
        taken.insert(address);
        kept.insert(name.to_string(), address);
    }
    Ok(kept)
}

/// In its own network a cluster reserves addresses that the cloud does not assign. In a network of others it takes them
/// from the range that the cloud assigns, because the rest has other uses.
fn is_fit(spec: &Spec, network: &Network, address: IpAddr) -> bool {
    let automatic = network.automatic.iter().any(|range| range.contains(address));
    network.automatic.is_empty() || automatic != is_own(spec, network)
}

/// The network may be one of another cluster, which this one only uses.
pub fn is_own(spec: &Spec, network: &Network) -> bool {
    spec.cloud.existing_network().is_none() && network.labels.get(labels::CLUSTER) == Some(&spec.name)
}

/// Addresses in the assigned range besides those of fixed nodes: the cloud's own ports, and a margin.
const OTHERS: u32 = 8;
/// The range grows in these steps, so that not every added node changes it.
const STEP: u32 = 16;

/// Where the cloud may take addresses from in the cluster's own network: all of it, or with elastic nodes the lowest
/// quarter, or as much as the fixed nodes need. Never what the file gives to a node, which may come later than others
/// or be powered down. Empty: the nodes do not fit.
pub fn automatic(spec: &Spec, cidr: Ipv4Net) -> Vec<AddressRange> {
    let named: BTreeSet<u32> = spec.nodes().filter_map(|node| v4(node.address?)).collect();
    let Some((first, size)) = assigned(spec, cidr) else { return Vec::new() };
    let mut ranges = Vec::new();
    let mut next = first;
    for end in named.range(first..first + size).copied().chain([first + size]) {
        if next < end {
            ranges.push(AddressRange { first: next.into(), last: (end - 1).into() });
        }
        next = end + 1;
    }
    ranges
}

/// The first address that the cloud may assign, and how many from there on.
fn assigned(spec: &Spec, cidr: Ipv4Net) -> Option<(u32, u32)> {
    let elastic = u32::try_from(spec.nodes().filter(|node| node.elastic).count()).ok()?;
    let fixed = u32::try_from(spec.nodes().count()).ok()? - elastic;
    let hosts = Pool::hosts(cidr)?;
    if elastic + fixed > hosts {
        return None;
    }
    let wanted = match elastic {
        0 => hosts,
        _ => (hosts / 4).max((fixed + OTHERS).next_multiple_of(STEP)),
    };
    // Those that are kept go first: the file promises them.
    Some((u32::from(cidr.network()) + 2, wanted.min(hosts - elastic)))
}

fn v4(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) => Some(address.into()),
        IpAddr::V6(_) => None,
    }
}

/// The upper part of a network: clouds assign addresses from the bottom up, so they reach it last.
struct Pool {
    first: u32,
    size: u32,
}

impl Pool {
    /// How many addresses there are for nodes: all but the network's own, the gateway's and the broadcast.
    fn hosts(cidr: Ipv4Net) -> Option<u32> {
        u32::from(cidr.broadcast()).checked_sub(u32::from(cidr.network()) + 2)
    }

    fn of(cidr: Ipv4Net, fixed: usize, elastic: usize) -> Option<Pool> {
        let hosts = Pool::hosts(cidr)?;
        let (fixed, elastic) = (u32::try_from(fixed).ok()?, u32::try_from(elastic).ok()?);
        if fixed + elastic > hosts {
            return None;
        }
        // Three quarters, or what is needed.
        let size = (hosts - hosts / 4).max(elastic);
        Some(Pool { first: u32::from(cidr.broadcast()) - size, size })
    }

    fn pick(&self, name: &str, is_right: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let digest = Sha256::digest(name);
        let start = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) % self.size;
        (0..self.size)
            .map(|step| IpAddr::from(Ipv4Addr::from(self.first + (start + step) % self.size)))
            .find(|address| is_right(*address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(nodes: &str) -> Spec {
        let text = format!(
            "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.e]\nnodes = \"{nodes}\"\nelastic = {{}}\n"
        );
        kiln_spec::parse(&text, "f").unwrap()
    }

    fn network(own: bool, automatic: Option<AddressRange>) -> Network {
        Network {
            id: "n".into(),
            name: "c".into(),
            cidr: "10.1.2.0/24".parse().unwrap(),
            labels: own.then(|| (labels::CLUSTER.to_string(), "c".to_string())).into_iter().collect(),
            lacks: None,
            api_url: None,
            automatic: automatic.into_iter().collect(),
        }
    }

    fn addresses(nodes: &str) -> Result<BTreeMap<String, IpAddr>> {
        let observed = Observed { networks: vec![network(true, None)], ..Observed::default() };
        reserved_addresses(&spec(nodes), &observed)
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

    #[test]
    fn the_cloud_gives_away_only_what_is_not_kept() {
        for (nodes, last) in [("e-[0-9]", "10.1.2.64"), ("e-[1-240]", "10.1.2.14")] {
            let spec = spec(nodes);
            let range = only(&spec);
            assert_eq!((range.first.to_string(), range.last.to_string()), ("10.1.2.2".into(), last.into()));
            let observed = Observed { networks: vec![network(true, Some(range))], ..Observed::default() };
            let kept = reserved_addresses(&spec, &observed).unwrap();
            assert!(kept.values().all(|address| !range.contains(*address)), "{kept:?}");
        }
        // In somebody else's network it is the other way round.
        let pool = AddressRange { first: [10, 1, 2, 5].into(), last: [10, 1, 2, 99].into() };
        let observed = Observed { networks: vec![network(false, Some(pool))], ..Observed::default() };
        let kept = reserved_addresses(&spec("e-[0-9]"), &observed).unwrap();
        assert!(kept.values().all(|address| pool.contains(*address)), "{kept:?}");
    }

    #[test]
    fn the_network_of_another_cluster_is_not_ones_own() {
        let own = network(true, None);
        assert!(is_own(&spec("e-0"), &own));
        let labels = [(labels::CLUSTER.to_string(), "other".to_string())].into();
        assert!(!is_own(&spec("e-0"), &Network { labels, ..own.clone() }));
        // That the other one has the same name, in another project say, does not make it this one's.
        let text = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"openstack\"\nnetwork = \"c\"\n\
            [image.default]\nprebuilt = \"x\"\n[control]\nflavor = \"f\"\n\
            [compute.e]\nnodes = \"e-0\"\nflavor = \"f\"\n";
        assert!(!is_own(&kiln_spec::parse(text, "f").unwrap(), &own));
    }

    /// The one range from which the cloud assigns.
    fn only(spec: &Spec) -> AddressRange {
        match automatic(spec, "10.1.2.0/24".parse().unwrap()).as_slice() {
            [range] => *range,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_of_the_file_is_given_to_nobody_else() {
        let file = |group: &str| {
            let cloud = "[cloud]\nkind = \"local\"\nsubnet = \"10.1.2.0/24\"\n";
            let text = format!("[cluster]\nname = \"c\"\n{cloud}[compute.n]\nnodes = \"n-[0-3]\"\n{group}");
            kiln_spec::parse(&text, "f").unwrap()
        };
        let ranges = |group: &str| {
            let ranges = automatic(&file(group), "10.1.2.0/24".parse().unwrap());
            ranges.iter().map(|range| format!("{}-{}", range.first, range.last)).collect::<Vec<_>>()
        };
        assert_eq!(ranges(""), ["10.1.2.2-10.1.2.254"]);
        let of = |node: &str, address: &str| format!("override.{node}.address = \"10.1.2.{address}\"\n");
        assert_eq!(ranges(&of("n-1", "203")), ["10.1.2.2-10.1.2.202", "10.1.2.204-10.1.2.254"]);
        // At the ends, and side by side.
        let four = ["2", "9", "10", "254"].iter().enumerate();
        let four: String = four.map(|(n, address)| of(&format!("n-{n}"), address)).collect();
        assert_eq!(ranges(&four), ["10.1.2.3-10.1.2.8", "10.1.2.11-10.1.2.253"]);
        // Of nodes that come and go as well, in the part that the cloud assigns.
        let elastic = format!("elastic = {{}}\n{}{}", of("n-0", "30"), of("n-1", "203"));
        assert_eq!(ranges(&elastic), ["10.1.2.2-10.1.2.29", "10.1.2.31-10.1.2.64"]);
    }

    #[test]
    fn what_others_have_is_not_kept() {
        let (spec, network) = (spec("e-[0-9]"), network(true, None));
        let alone = Observed { networks: vec![network], ..Observed::default() };
        let kept = reserved_addresses(&spec, &alone).unwrap();
        let foreign = BTreeMap::from([(kept["e-3"], "port x".to_string())]);
        let observed = Observed { foreign, ..alone };
        let moved = reserved_addresses(&spec, &observed).unwrap();
        let differ: Vec<&String> = kept.keys().filter(|name| kept[*name] != moved[*name]).collect();
        assert_eq!(differ, ["e-3"]);
    }
}
