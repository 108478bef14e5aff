//! Networks that Kiln makes, each with its subnet and, where the cluster file names an external network, its router.

use std::net::IpAddr;

use ipnet::Ipv4Net;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::take;
use super::driver::{Driver, checked, missing};
use super::fault::taken;
use super::labels::{cluster_of, describe, descriptions};
use super::session::Service::Network as Neutron;
use super::wire::{Described, FixedIp, Id};
use crate::remote::encode;
use crate::retry::{Policy, retry};
use crate::{AddressRange, Class, Error, Labels, Network, NetworkPart, NewNetwork, Result};
use kiln_wire::labels;

/// For a network whose subnet nobody cares about: it is a network of its own, so any will do.
const ANY: &str = "10.213.0.0/24";

#[derive(Debug, Deserialize)]
struct Subnet {
    id: String,
    cidr: String,
    ip_version: u8,
    network_id: String,
    #[serde(default, rename = "allocation_pools")]
    pools: Vec<Pool>,
    /// Kinds of ports that alone get addresses from it. Empty: all.
    #[serde(default)]
    service_types: Vec<String>,
}

/// Neutron's word for a range.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Pool {
    start: IpAddr,
    end: IpAddr,
}

impl Pool {
    fn range(self) -> Option<AddressRange> {
        match (self.start, self.end) {
            (IpAddr::V4(first), IpAddr::V4(last)) => Some(AddressRange { first, last }),
            _ => None,
        }
    }
}

impl Subnet {
    /// IPv4, that is, and not for routers alone.
    fn usable(self) -> Option<Subnet4> {
        let for_nodes = self.service_types.is_empty()
            || self.service_types.iter().any(|kind| kind.starts_with("compute:"));
        let cidr = self.cidr.parse().ok().filter(|_| self.ip_version == 4 && for_nodes)?;
        let mut pools: Vec<AddressRange> = self.pools.into_iter().filter_map(Pool::range).collect();
        // Neutron has no order for them.
        pools.sort_unstable_by_key(|pool| pool.first);
        Some(Subnet4 { id: self.id, cidr, pools })
    }
}

#[derive(Debug, Deserialize)]
struct RouterPort {
    fixed_ips: Vec<FixedIp>,
}

impl Driver {
    /// Those that Kiln made for the cluster.
    pub async fn networks(&self, cluster: &str) -> Result<Vec<Network>> {
        let found: Vec<Described> = self.described("networks", cluster).await?;
        let mut networks = Vec::new();
        for network in found {
            // One whose making was cut off may have no subnet yet, or no way out.
            let found = self.subnets(&network.id).await?.into_iter().find_map(Subnet::usable);
            let lacks = match &found {
                None => Some(NetworkPart::Subnet),
                Some(subnet) if self.is_routed(&network, subnet).await? => None,
                Some(_) => Some(NetworkPart::Router),
            };
            let subnet = match found {
                Some(subnet) => subnet,
                None => Subnet4 { id: String::new(), cidr: any_subnet()?, pools: vec![] },
            };
            networks.push(Network { lacks, ..as_network(&network, &subnet) });
        }
        Ok(networks)
    }

    /// Whether it has the router that the cluster file asks for.
    async fn is_routed(&self, network: &Described, subnet: &Subnet4) -> Result<bool> {
        if self.settings.external_network.is_none() {
            return Ok(true);
        }
        for router in self.routers_of(&network.name, &network.labels()).await? {
            let ports = self.router_ports(&router.id).await?;
            let mut plugged = ports.iter().flat_map(|p| &p.fixed_ips).map(|f| f.subnet_id.as_str());
            if plugged.any(|id| id == subnet.id) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One that exists, whoever made it: for the cluster to use, not to own.
    pub async fn network_by_name(&self, name: &str) -> Result<Option<Network>> {
        let path = format!("/networks?name={}", encode(name));
        let found = self.named(&path, "networks").await?;
        match found.as_slice() {
            [] => Ok(None),
            [network] => {
                let found = self.subnet_of(&network.id).await?.ok_or_else(|| {
                    let subnet =
                        self.settings.chosen_subnet().map_or("IPv4 subnet".into(), |s| format!("subnet {s}"));
                    Error::refused(format!("network {name} has no {subnet}"))
                })?;
                Ok(Some(as_network(network, &found)))
            }
            _ => Err(Error::conflict(format!("several networks are named {name}; Kiln cannot choose"))),
        }
    }

    /// The IPv4 subnets; the one that the cluster file names, if it names one.
    async fn subnets_of(&self, network: &str) -> Result<Vec<Subnet4>> {
        let all = self.subnets(network).await?.into_iter().filter_map(Subnet::usable);
        let wanted = self.settings.chosen_subnet();
        Ok(all.filter(|subnet| wanted.is_none_or(|wanted| subnet.cidr == wanted)).collect())
    }

    /// Neutron would take one of several for each port, and Kiln has to know which.
    pub(super) async fn check_subnet(&self, network: &str) -> Result<()> {
        let Some(network) = self.network_by_name(network).await? else { return Ok(()) };
        let mut ranges: Vec<String> =
            self.subnets_of(&network.id).await?.iter().map(|subnet| subnet.cidr.to_string()).collect();
        if ranges.len() < 2 {
            return Ok(());
        }
        ranges.sort();
        let name = network.name;
        Err(Error::refused(format!("network {name} has the IPv4 subnets {}", ranges.join(" and ")))
            .with_hint("say which one to use: `subnet` in [cloud]"))
    }

    /// The first of them.
    async fn subnet_of(&self, network: &str) -> Result<Option<Subnet4>> {
        Ok(self.subnets_of(network).await?.into_iter().next())
    }

    /// What a person calls by this name: the project's own, else what others share with it. An administrator is shown the rest, too.
    pub(super) async fn named(&self, path: &str, key: &str) -> Result<Vec<Described>> {
        let own = self.client.list_own(Neutron, path, key).await?;
        if !own.is_empty() {
            return Ok(own);
        }
        let mut others: Vec<Described> = self.client.list(Neutron, path, key).await?;
        if self.client.is_admin().await? {
            others.retain(Described::is_for_others);
        }
        Ok(others)
    }

    /// Somebody else's network stays as it is.
    pub async fn set_automatic(&self, network: &str, ranges: &[AddressRange]) -> Result<()> {
        let path = format!("/networks/{}", checked("network", network)?);
        let found: Described = missing(self.client.get(Neutron, &path, "network").await, "network", network)?;
        if cluster_of(&found.labels()).is_none() {
            return Err(Error::conflict(format!("network {} ({network}) is not Kiln's", found.name)));
        }
        let subnet = self.subnet_of(network).await?;
        let subnet = subnet.ok_or_else(|| Error::failed(format!("network {} has no subnet", found.name)))?;
        let body = json!({ "subnet": { "allocation_pools": pools(ranges) } });
        let path = format!("/subnets/{}", subnet.id);
        self.client.request(Neutron, Method::PUT, &path, Some(&body)).retried().await.map(drop)
    }

    async fn subnets(&self, network: &str) -> Result<Vec<Subnet>> {
        let path = format!("/subnets?network_id={}", encode(network));
        self.client.list(Neutron, &path, "subnets").await
    }

    /// What the cluster has of a kind, for its nodes and for builds.
    pub(super) async fn described<T: serde::de::DeserializeOwned>(
        &self,
        kind: &str,
        cluster: &str,
    ) -> Result<Vec<T>> {
        let filter = descriptions(cluster).map(|d| format!("description={}", encode(&d))).join("&");
        self.client.list_own(Neutron, &format!("/{kind}?{filter}"), &kind.replace('-', "_")).await
    }

    /// Every part is looked for before it is made, so a call that was cut off is completed by the next one.
    pub async fn create_network(&self, new: NewNetwork) -> Result<Network> {
        // Asked first: a name that is wrong should leave nothing behind.
        let external = self.external_network().await?;
        let cidr = match new.cidr {
            Some(cidr) => cidr,
            None => any_subnet()?,
        };
        let description = describe(&new.labels);
        let network: Described = self
            .ensure("networks", "network", &new, json!({ "name": new.name, "description": description }))
            .await?;
        self.tag("networks", &network.id, &new.labels).await?;
        let mut body = json!({ "name": new.name, "description": description, "network_id": network.id,
                               "ip_version": 4, "cidr": cidr.to_string() });
        if !new.automatic.is_empty() {
            body["allocation_pools"] = pools(&new.automatic);
        }
        let subnet: Id = self.ensure("subnets", "subnet", &new, body).await?;
        if let Some(external) = external {
            let router: Id = self
                .ensure(
                    "routers",
                    "router",
                    &new,
                    json!({ "name": new.name, "description": description,
                            "external_gateway_info": { "network_id": external } }),
                )
                .await?;
            self.plug_router(&router.id, &subnet.id).await?;
        }
        match self.subnet_of(&network.id).await?.filter(|made| made.cidr == cidr) {
            Some(made) => Ok(as_network(&network, &made)),
            None => Err(Error::conflict(format!("network {} has another subnet than {cidr}", new.name))),
        }
    }

    /// Found by name and description, else made. Somebody else's of the same name is a conflict.
    pub(super) async fn ensure<T: serde::de::DeserializeOwned>(
        &self,
        kind: &str,
        key: &str,
        new: &(impl Labelled + Sync),
        body: Value,
    ) -> Result<T> {
        let (name, description) = (new.name(), describe(new.labels()));
        let description = description.as_str();
        let path = format!("/{kind}?name={}", encode(name));
        let body = &json!({ key: body });
        let path = &path;
        retry(&Policy::REMOTE, |_| async move {
            let there: Vec<Value> = self.client.list_own(Neutron, path, &kind.replace('-', "_")).await?;
            let is_there = !there.is_empty();
            let own = there.into_iter().find(|found| found["description"].as_str() == Some(description));
            if let Some(own) = own {
                return serde_json::from_value(own)
                    .map_err(|_| Error::failed(format!("the cloud's answer to {path} cannot be read")));
            }
            // Several may have one name; but then which is which would be anybody's guess.
            if is_there {
                return Err(taken(&format!("{} {name}", key.replace('_', " ")), "this cluster's"));
            }
            let answer =
                self.client.request(Neutron, Method::POST, &format!("/{kind}"), Some(body)).once().await?;
            take(answer, key, path)
        })
        .await
    }

    /// The labels that are tags, of a network or a security group.
    pub(super) async fn tag(&self, kind: &str, id: &str, labels: &Labels) -> Result<()> {
        let Some(own) = labels.get(labels::ID) else { return Ok(()) };
        let tag = encode(&format!("{}={own}", labels::ID));
        let path = format!("/{kind}/{}/tags/{tag}", checked("resource", id)?);
        self.client.request(Neutron, Method::PUT, &path, None).retried().await.map(drop)
    }

    async fn plug_router(&self, router: &str, subnet: &str) -> Result<()> {
        if self.router_ports(router).await?.iter().any(|p| p.fixed_ips.iter().any(|f| f.subnet_id == subnet))
        {
            return Ok(());
        }
        let path = format!("/routers/{router}/add_router_interface");
        let body = json!({ "subnet_id": subnet });
        match self.client.request(Neutron, Method::PUT, &path, Some(&body)).retried().await {
            // "Router already has a port on subnet": an earlier attempt whose answer was lost.
            Err(Error { class: Class::Refused, message: why, .. }) if why.contains("already has a port") => {
                Ok(())
            }
            answer => answer.map(drop),
        }
    }

    async fn router_ports(&self, router: &str) -> Result<Vec<RouterPort>> {
        self.client.list(Neutron, &format!("/ports?device_id={}", encode(router)), "ports").await
    }

    pub async fn delete_network(&self, id: &str) -> Result<()> {
        let path = format!("/networks/{}", checked("network", id)?);
        let network: Described = match self.client.get(Neutron, &path, "network").await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => missing(other, "network", id)?,
        };
        let labels = network.labels();
        if cluster_of(&labels).is_none() {
            return Err(Error::conflict(format!("network {} ({id}) is not Kiln's", network.name)));
        }
        self.delete_routers(&network.name, &labels, id).await?;
        self.while_in_use(|| self.client.delete(Neutron, &path)).await
    }

    /// Those with a network's own name and labels.
    async fn routers_of(&self, name: &str, labels: &Labels) -> Result<Vec<Id>> {
        let path = format!("/routers?name={}&description={}", encode(name), encode(&describe(labels)));
        self.client.list_own(Neutron, &path, "routers").await
    }

    async fn delete_routers(&self, name: &str, labels: &Labels, network: &str) -> Result<()> {
        for router in self.routers_of(name, labels).await? {
            let subnets = self.subnets(network).await?;
            for subnet in subnets.iter().filter(|s| s.network_id == network) {
                let path = format!("/routers/{}/remove_router_interface", router.id);
                let body = json!({ "subnet_id": subnet.id });
                match self.client.request(Neutron, Method::PUT, &path, Some(&body)).retried().await {
                    // It was not plugged in, or no longer is.
                    Ok(_) => {}
                    Err(error) if error.is_not_found() || error.is_conflict() => {}
                    Err(error) => return Err(error),
                }
            }
            let path = format!("/routers/{}", router.id);
            self.while_in_use(|| self.client.delete(Neutron, &path)).await?;
        }
        Ok(())
    }
}

/// Something with a name and labels, to be made.
pub(super) trait Labelled {
    fn name(&self) -> &str;
    fn labels(&self) -> &Labels;
}

impl Labelled for NewNetwork {
    fn name(&self) -> &str {
        &self.name
    }
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

fn any_subnet() -> Result<Ipv4Net> {
    ANY.parse().map_err(|_| Error::failed("no subnet"))
}

/// A subnet that Kiln can use.
struct Subnet4 {
    id: String,
    cidr: Ipv4Net,
    pools: Vec<AddressRange>,
}

fn as_network(network: &Described, subnet: &Subnet4) -> Network {
    Network {
        id: network.id.clone(),
        name: network.name.clone(),
        cidr: subnet.cidr,
        labels: network.labels(),
        lacks: None,
        api_url: None,
        automatic: subnet.pools.clone(),
    }
}

fn pools(ranges: &[AddressRange]) -> Value {
    ranges.iter().map(|range| json!({ "start": range.first, "end": range.last })).collect()
}
