//! The network, its addresses and its security groups.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use kiln_cloud::{InstanceStatus, NetworkPart, Peers, Rule};
use kiln_site::services::{self, OpenTo};
use kiln_site::{Purpose, volume_name};
use kiln_spec::Spec;
use kiln_wire::dashboard::TLS_PORT;
use kiln_wire::labels;

use super::action::{Action, PlannedRule};
use super::reference::{Ref, Resource};
use crate::addresses::{automatic, is_own};
use crate::observe::Observed;

pub fn network(spec: &Spec, observed: &Observed) -> Option<Action> {
    if spec.cloud.existing_network().is_some() {
        return None;
    }
    let wanted = spec.cloud.subnet();
    let (cidr, lacks) = match observed.networks.first().map(|own| (own, own.lacks)) {
        None => (wanted, None),
        Some((_, None)) => return None,
        Some((_, Some(NetworkPart::Subnet))) => (wanted, Some(NetworkPart::Subnet)),
        // Its subnet stays, even if the file names another one by now.
        Some((own, lacks)) => (Some(own.cidr), lacks),
    };
    let automatic = cidr.map(|cidr| automatic(spec, cidr)).unwrap_or_default();
    Some(Action::CreateNetwork { name: spec.name.clone(), cidr, lacks, automatic })
}

/// In a network of the cluster's own, on a cloud that says from which range it assigns addresses.
pub fn keep_addresses(spec: &Spec, observed: &Observed) -> Option<Action> {
    let network = observed.networks.first().filter(|n| is_own(spec, n) && !n.automatic.is_empty())?;
    let automatic = automatic(spec, network.cidr);
    let differs = !automatic.is_empty() && network.automatic != automatic;
    let (name, id) = (network.name.clone(), network.id.clone());
    differs.then_some(Action::KeepAddresses { network: name, id, automatic })
}

/// The address that a new control node gets: the one that the last one had. Nodes mount by it.
pub fn control_address(spec: &Spec, observed: &Observed) -> Option<IpAddr> {
    let share = observed.volumes.iter().find(|v| v.name == volume_name(spec, Purpose::Share))?;
    let address: IpAddr = share.labels.get(labels::CONTROL_ADDRESS)?.parse().ok()?;
    let network = observed.networks.first()?;
    IpNet::from(network.cidr).contains(&address).then_some(address)
}

pub fn note_control(spec: &Spec, observed: &Observed) -> Option<Action> {
    let control = *observed.nodes().get(spec.control.node.as_str())?;
    let address = control.address.filter(|_| !matches!(control.status, InstanceStatus::Error { .. }))?;
    let share = observed.volumes.iter().find(|v| v.name == volume_name(spec, Purpose::Share))?;
    let noted = share.labels.get(labels::CONTROL_ADDRESS).is_some_and(|noted| *noted == address.to_string());
    (!noted).then(|| Action::NoteControl { volume: share.id.clone(), address })
}

pub fn network_id(spec: &Spec, observed: &Observed) -> Ref<String> {
    match observed.networks.first() {
        Some(network) => Ref::Known(network.id.clone()),
        None => Ref::Made(Resource::Network(spec.name.clone())),
    }
}

pub fn subnet(spec: &Spec, observed: &Observed) -> Ref<Ipv4Net> {
    match observed.networks.first() {
        Some(network) if network.lacks != Some(NetworkPart::Subnet) => Ref::Known(network.cidr),
        _ => Ref::Made(Resource::Network(spec.name.clone())),
    }
}

pub fn security_groups(spec: &Spec, observed: &Observed) -> Vec<Action> {
    let wanted = [(cluster_group(spec), false), (login_group(spec), true)];
    wanted
        .into_iter()
        .filter(|(_, login)| !login || !spec.login.is_empty())
        .filter_map(|(name, login)| {
            let there = observed.security_groups.iter().find(|group| group.name == name);
            let rules = rules(spec, login, subnet(spec, observed));
            let known =
                |rule: &PlannedRule| Some(Rule { from: rule.from.clone().known()?, tcp_port: rule.tcp_port });
            let known: Vec<Rule> = rules.iter().filter_map(known).collect();
            let closed: Vec<Rule> =
                there.map(|group| closed(login, &group.rules, &known)).unwrap_or_default();
            let lacks = there.is_some_and(|group| known.iter().any(|rule| !group.rules.contains(rule)));
            let unfinished = lacks || !closed.is_empty();
            (there.is_none() || unfinished).then_some(Action::CreateSecurityGroup {
                name,
                login,
                unfinished,
                rules,
                closed,
            })
        })
        .collect()
}

/// What lets others in than the file says now. Rules for other ports are not Kiln's.
fn closed(login: bool, there: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let own = if login { services::ports(OpenTo::Everyone) } else { vec![TLS_PORT] };
    let is_own = |rule: &&Rule| rule.tcp_port.is_some_and(|port| own.contains(&port));
    there.iter().filter(is_own).filter(|rule| !wanted.contains(rule)).cloned().collect()
}

/// What a security group lets in.
pub fn rules(spec: &Spec, login: bool, subnet: Ref<Ipv4Net>) -> Vec<PlannedRule> {
    let open = |open_to, from: Ref<Peers>| {
        let ports = services::ports(open_to).into_iter();
        ports.map(move |port| PlannedRule { from: from.clone(), tcp_port: Some(port) })
    };
    if login {
        let from = spec.cloud.ssh_from().into_iter();
        from.flat_map(|net| open(OpenTo::Everyone, Ref::Known(net.into()))).collect()
    } else {
        let members = PlannedRule { from: Ref::Known(Peers::Members), tcp_port: None };
        let own = std::iter::once(members).chain(open(OpenTo::Network, subnet.map(Peers::from)));
        own.chain(slurmdbd(spec)).chain(dashboard(spec)).collect()
    }
}

/// A slurmdbd elsewhere tells slurmctld of new users and limits. Where it is a name, only the site knows its addresses.
fn slurmdbd(spec: &Spec) -> impl Iterator<Item = PlannedRule> {
    let hosts = spec.accounting.iter().flat_map(|dbd| std::iter::once(&dbd.host).chain(&dbd.backup_host));
    let addresses = hosts.filter_map(|host| host.parse::<IpAddr>().ok());
    addresses.map(|address| PlannedRule {
        from: Ref::Known(Peers::Net(address.into())),
        tcp_port: Some(kiln_site::SLURMCTLD_PORT),
    })
}

/// Whoever the file lets look at the dashboard from elsewhere.
fn dashboard(spec: &Spec) -> impl Iterator<Item = PlannedRule> {
    let from = spec.dashboard.iter().flat_map(|dashboard| &dashboard.from);
    from.map(|net| PlannedRule { from: Ref::Known((*net).into()), tcp_port: Some(TLS_PORT) })
}

pub fn security_group_id(observed: &Observed, name: String) -> Ref<String> {
    match observed.security_groups.iter().find(|group| group.name == name) {
        Some(group) => Ref::Known(group.id.clone()),
        None => Ref::Made(Resource::SecurityGroup(name)),
    }
}

/// Everything between the cluster's own nodes.
pub fn cluster_group(spec: &Spec) -> String {
    format!("{}-cluster", spec.name)
}

/// What is open to everyone, or to those that the file names: SSH.
pub fn login_group(spec: &Spec) -> String {
    format!("{}-login", spec.name)
}
