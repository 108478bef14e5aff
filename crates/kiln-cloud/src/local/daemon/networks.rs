//! Networks (a bridge each) and security groups (rules the instances' supervisors enforce).

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ipnet::Ipv4Net;
use rustix::fs::{FlockOperation, flock};

use super::access::Caller;
use super::records::Labelled as _;
use super::{Daemon, World};
use crate::local::{exec, names};
use crate::{AddressRange, Error, Network, NewNetwork, NewSecurityGroup, Result, SecurityGroup};

const LINKS: &str = "/sys/class/net";

pub fn bridge(id: &str) -> String {
    let short: String = id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    format!("kb{short}")
}

/// The host's address on a network: the first one.
pub fn gateway(cidr: Ipv4Net) -> Ipv4Addr {
    cidr.hosts().next().unwrap_or(cidr.network())
}

impl Daemon {
    pub fn networks(&self, caller: &Caller, cluster: &str) -> Vec<Network> {
        let world = self.world();
        world
            .networks
            .iter()
            .filter(|n| n.cluster() == Some(cluster) && caller.may_see(*n))
            .cloned()
            .collect()
    }

    pub fn create_network(&self, caller: &Caller, new: NewNetwork) -> Result<Network> {
        caller.check_labels(&new.labels)?;
        names::check_name(&new.name)?;
        // Roots share the host's address space: pick and take it in one go.
        let _host_lock = lock_host()?;
        let routes = host_routes()?;
        let network = {
            let mut world = self.world();
            if world.networks.iter().any(|n| n.name == new.name && n.cluster() == new.labels.cluster()) {
                return Err(Error::conflict(format!("there is a network {} already", new.name)));
            }
            let mut taken: Vec<_> = world.networks.iter().map(|n| n.cidr).collect();
            taken.extend(routes);
            let cidr = choose(new.cidr, &taken, &self.mark)?;
            let network = Network {
                id: names::new_id(),
                name: new.name,
                cidr,
                labels: new.labels,
                lacks: None,
                api_url: Some(format!("http://{}:{}", gateway(cidr), self.port)),
                automatic: new.automatic,
            };
            world.networks.put(network.clone())?;
            network
        };
        let made = self.make_bridge(&network).and_then(|()| self.sync_firewall());
        if let Err(error) = made {
            let _ = self.take_network_away(&Caller::Root, &network.id);
            return Err(error);
        }
        Ok(network)
    }

    pub fn set_automatic(&self, caller: &Caller, id: &str, ranges: Vec<AddressRange>) -> Result<()> {
        let mut world = self.world();
        let network = caller.check(world.networks.get(id)?)?.clone();
        world.networks.put(Network { automatic: ranges, ..network })
    }

    pub fn delete_network(&self, caller: &Caller, id: &str) -> Result<()> {
        // The last network of all roots takes the host's settings back, which another's first one needs.
        let _host_lock = lock_host()?;
        self.take_network_away(caller, id)
    }

    fn take_network_away(&self, caller: &Caller, id: &str) -> Result<()> {
        {
            let mut world = self.world();
            caller.check(world.networks.get(id)?)?;
            if let Some(user) = world.instances.iter().find(|i| i.network == id) {
                return Err(Error::conflict(format!("instance {} is on the network", user.name)));
            }
            // First from the records, under the lock, so that no instance can join what is going.
            world.networks.remove(id)?;
        }
        remove_bridge(&bridge(id));
        self.sync_firewall()
    }

    /// Bridges of this root that no network on record has: left by a deletion that was cut short.
    pub fn remove_stray_bridges(&self) {
        let known: Vec<_> = self.world().networks.iter().map(|n| bridge(&n.id)).collect();
        let Ok(links) = std::fs::read_dir(LINKS) else {
            return;
        };
        for link in links.flatten() {
            let alias = std::fs::read_to_string(link.path().join("ifalias")).unwrap_or_default();
            let name = link.file_name().to_string_lossy().into_owned();
            let bridge = link.path().join("bridge").exists();
            if bridge && alias.trim() == self.name_on_host() && !known.contains(&name) {
                remove_bridge(&name);
            }
        }
    }

    pub fn make_bridge(&self, network: &Network) -> Result<()> {
        let bridge = bridge(&network.id);
        if Path::new(LINKS).join(&bridge).exists() {
            return Ok(());
        }
        let address = gateway(network.cidr);
        // One of its own: without, a bridge takes on that of some member and changes it as they come and go.
        let mac = names::mac(&network.id);
        exec::ip(&format!(
            "link add {bridge} address {mac} type bridge forward_delay 0 stp_state 0\n\
             link set {bridge} alias {}\n\
             address add {address}/{} dev {bridge}\n\
             link set {bridge} up\n",
            self.name_on_host(),
            network.cidr.prefix_len()
        ))
    }

    pub fn security_groups(&self, caller: &Caller, cluster: &str) -> Vec<SecurityGroup> {
        let world = self.world();
        world.groups.iter().filter(|g| g.cluster() == Some(cluster) && caller.may_see(*g)).cloned().collect()
    }

    pub fn create_security_group(&self, caller: &Caller, new: NewSecurityGroup) -> Result<SecurityGroup> {
        caller.check_labels(&new.labels)?;
        names::check_name(&new.name)?;
        let mut world = self.world();
        if world.groups.iter().any(|g| g.name == new.name && g.cluster() == new.labels.cluster()) {
            return Err(Error::conflict(format!("there is a security group {} already", new.name)));
        }
        let group =
            SecurityGroup { id: names::new_id(), name: new.name, labels: new.labels, rules: new.rules };
        world.groups.put(group.clone())?;
        Ok(group)
    }

    pub fn delete_security_group(&self, caller: &Caller, id: &str) -> Result<()> {
        let mut world = self.world();
        caller.check(world.groups.get(id)?)?;
        if let Some(user) = world.instances.iter().find(|i| i.security_groups.iter().any(|g| g == id)) {
            return Err(Error::conflict(format!("instance {} is in the security group", user.name)));
        }
        world.groups.remove(id)
    }
}

impl World {
    /// An address nobody has: the one asked for, or the lowest that may be given away.
    pub fn free_address(&self, network: &Network, wanted: Option<IpAddr>) -> Result<Ipv4Addr> {
        let taken = |a: Ipv4Addr| {
            a == gateway(network.cidr)
                || self.instances.iter().any(|i| i.network == network.id && i.address == a)
        };
        match wanted {
            Some(IpAddr::V4(a)) if !is_host(network.cidr, a) => {
                Err(Error::refused(format!("{a} is not an address of {}", network.cidr)))
            }
            Some(IpAddr::V4(a)) if taken(a) => Err(Error::conflict(format!("{a} is taken"))),
            Some(IpAddr::V4(a)) => Ok(a),
            Some(a) => Err(Error::refused(format!("{a} is not an IPv4 address"))),
            None => network
                .cidr
                .hosts()
                .find(|a| is_for_all(network, *a) && !taken(*a))
                .ok_or_else(|| Error::no_room(format!("no address left in {}", network.cidr))),
        }
    }
}

/// Whether an instance may get it without asking for it.
fn is_for_all(network: &Network, address: Ipv4Addr) -> bool {
    network.automatic.is_empty() || network.automatic.iter().any(|range| range.contains(address.into()))
}

fn remove_bridge(bridge: &str) {
    if Path::new(LINKS).join(bridge).exists() {
        exec::ip_force(&format!("link del {bridge}\n"));
    }
}

fn is_host(cidr: Ipv4Net, address: Ipv4Addr) -> bool {
    cidr.contains(&address) && address != cidr.network() && address != cidr.broadcast()
}

/// Held while something is changed that all roots of the host share.
pub fn lock_host() -> Result<std::fs::File> {
    let failed = |e: std::io::Error| Error::failed("cannot lock /run").because(e);
    let file = std::fs::File::open("/run").map_err(failed)?;
    flock(&file, FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
    Ok(file)
}

/// Where the host already sends packets: those networks are taken.
fn host_routes() -> Result<Vec<Ipv4Net>> {
    let text = exec::run("ip", &["-4", "route", "show", "table", "all"], "")?;
    Ok(parse_routes(&text))
}

fn parse_routes(text: &str) -> Vec<Ipv4Net> {
    let kinds = ["local", "broadcast", "unreachable", "blackhole", "prohibit"];
    text.lines()
        .filter_map(|line| line.split_whitespace().find(|word| !kinds.contains(word)))
        .filter_map(|word| word.parse().ok().or_else(|| word.parse::<Ipv4Addr>().ok().map(Ipv4Net::from)))
        .filter(|net: &Ipv4Net| net.prefix_len() > 0)
        .collect()
}

fn overlaps(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

fn choose(wanted: Option<Ipv4Net>, taken: &[Ipv4Net], mark: &str) -> Result<Ipv4Net> {
    if let Some(cidr) = wanted {
        if !(8..=29).contains(&cidr.prefix_len()) || cidr != cidr.trunc() {
            return Err(Error::refused(format!("{cidr} cannot be a network here")));
        }
        if let Some(other) = taken.iter().find(|t| overlaps(cidr, **t)) {
            return Err(Error::conflict(format!("{cidr} overlaps {other}, which this host uses")));
        }
        return Ok(cidr);
    }
    // Start at a place of the root's own, so that its networks are likely to stay the same.
    let start = u8::from_str_radix(&mark[..2], 16).unwrap_or(0);
    (0..=255u8)
        .map(|n| Ipv4Net::new_assert(Ipv4Addr::new(10, 213, start.wrapping_add(n), 0), 24))
        .find(|cidr| !taken.iter().any(|t| overlaps(*cidr, *t)))
        .ok_or_else(|| Error::no_room("no free network left in 10.213.0.0/16"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    #[test]
    fn routes_are_read() {
        let text = "default via 192.0.2.1 dev eth0\n192.0.2.0/24 dev eth0 proto kernel\nlocal 127.0.0.1 dev lo table local\nbroadcast 10.9.0.255 dev x\n";
        let nets: Vec<String> = parse_routes(text).iter().map(ToString::to_string).collect();
        assert_eq!(nets, ["192.0.2.0/24", "127.0.0.1/32", "10.9.0.255/32"]);
    }

    #[test]
    fn a_free_network_is_chosen() {
        let taken = ["10.213.255.0/24".parse().unwrap(), "10.213.0.1/32".parse().unwrap()];
        assert_eq!(choose(None, &taken, "ff00").unwrap().to_string(), "10.213.1.0/24");
        assert!(matches!(
            choose(None, &["10.0.0.0/8".parse().unwrap()], "00"),
            Err(Error { class: Class::NoRoom, .. })
        ));
    }

    #[test]
    fn a_wanted_network_must_be_free_and_proper() {
        let want = |s: &str| choose(Some(s.parse().unwrap()), &["10.1.2.0/24".parse().unwrap()], "00");
        assert!(want("10.1.3.0/24").is_ok());
        assert!(matches!(want("10.1.0.0/16"), Err(Error { class: Class::Conflict, .. })));
        assert!(matches!(want("10.1.3.1/24"), Err(Error { class: Class::Refused, .. })));
        assert!(matches!(want("10.1.3.0/30"), Err(Error { class: Class::Refused, .. })));
    }
}
