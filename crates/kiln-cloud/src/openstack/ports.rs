//! Ports: made before their servers, so that addresses are known at once, security groups and labels are right from
//! the start, and a server that was asked for twice cannot exist twice.

use std::collections::BTreeMap;
use std::net::IpAddr;

use reqwest::Method;
use serde_json::{Value, json};

use super::client::take;
use super::driver::{Driver, checked};
use super::labels::{cluster_of, describe, of_cluster};
use super::session::Service::Network;
use super::wire::{Id, Port};
use crate::remote::{bounded, encode};
use crate::retry::{Policy, retry};
use crate::{Class, Error, NewInstance, Result};

impl Driver {
    /// All of the cluster's.
    pub(super) async fn ports(&self, cluster: &str) -> Result<Vec<Port>> {
        let path = format!("/ports?description={}", encode(&describe(&of_cluster(cluster))));
        self.client.list_own(Network, &path, "ports").await
    }

    /// One for each, by name: found if an earlier run left it, else made, all in one request.
    pub(super) async fn ensure_ports(&self, new: &[&NewInstance]) -> Result<BTreeMap<String, Result<Port>>> {
        let Some(cluster) = new.first().and_then(|n| cluster_of(&n.labels)) else {
            return Ok(BTreeMap::new());
        };
        let mut wanted: BTreeMap<String, Value> = BTreeMap::new();
        for instance in new {
            wanted.insert(instance.name.clone(), self.port_body(cluster, instance).await?);
        }
        match self.make_ports(cluster, &wanted).await {
            Ok(ports) => Ok(ports.into_iter().map(|(name, port)| (name, Ok(port))).collect()),
            // Neutron makes all or none. Which one it was that cannot have its address, and how many there is room for,
            // is found out one by one.
            Err(Error { class: Class::Conflict | Class::NoRoom | Class::Refused, .. }) => {
                let one = |(name, body): (String, Value)| async move {
                    let made =
                        self.make_ports(cluster, &BTreeMap::from([(name.clone(), body.clone())])).await;
                    let port = match made {
                        Ok(mut ports) => {
                            ports.remove(&name).ok_or_else(|| Error::failed(format!("{name} has no port")))
                        }
                        Err(error) if error.is_conflict() => {
                            Err(self.address_taken(cluster, &name, &body, error).await?)
                        }
                        Err(error) => Err(error),
                    };
                    Ok((name, port))
                };
                bounded(wanted.into_iter().collect(), one).await.into_iter().collect()
            }
            Err(error) => Err(error),
        }
    }

    /// Each attempt looks first: the answer of the one before may have been lost.
    async fn make_ports(
        &self,
        cluster: &str,
        wanted: &BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Port>> {
        retry(&Policy::REMOTE, |attempt| async move {
            let mut found = self.free_ports(cluster, wanted, attempt > 0).await?;
            let missing: Vec<&Value> =
                wanted.iter().filter(|(name, _)| !found.contains_key(*name)).map(|(_, body)| body).collect();
            if !missing.is_empty() {
                let body = json!({ "ports": missing });
                let answer = self.client.request(Network, Method::POST, "/ports", Some(&body)).once().await?;
                let made: Vec<Port> = take(answer, "ports", "/ports")?;
                found.extend(made.into_iter().map(|port| (port.name.clone(), port)));
            }
            Ok(found)
        })
        .await
    }

    /// Who has the address that a port cannot have. One of the cluster's own is about to go away, so it stays a conflict;
    /// waiting for somebody else would not help.
    async fn address_taken(&self, cluster: &str, name: &str, body: &Value, conflict: Error) -> Result<Error> {
        let (Some(network), Some(address)) =
            (body["network_id"].as_str(), body["fixed_ips"][0]["ip_address"].as_str())
        else {
            return Ok(conflict);
        };
        let filter = encode(&format!("ip_address={address}"));
        let path = format!("/ports?network_id={}&fixed_ips={filter}", encode(network));
        let there: Vec<Port> = self.client.list(Network, &path, "ports").await?;
        // A port of another project cannot be seen.
        let whose = there.first().map_or("somebody else's port".into(), Port::words);
        let taken = format!("{name}: its address {address} is taken by {whose}");
        let project = self.client.project().await?;
        let is_own = there.iter().any(|port| port.is_of(cluster, &project));
        Ok(if is_own { Error::conflict(taken) } else { Error::failed(taken) })
    }

    /// Addresses that ports of others have, each with whose it is, as far as the project may see it.
    pub async fn foreign_addresses(&self, network: &str, cluster: &str) -> Result<BTreeMap<IpAddr, String>> {
        let path = format!("/ports?network_id={}", encode(checked("network", network)?));
        let all: Vec<Port> = self.client.list(Network, &path, "ports").await?;
        let project = self.client.project().await?;
        let foreign = all.iter().filter(|port| !port.is_of(cluster, &project));
        Ok(foreign.flat_map(|p| p.fixed_ips.iter().map(|f| (f.ip_address, p.words()))).collect())
    }

    /// Ports of these names that no server has. What an earlier run left may be for another address or other groups,
    /// so only ports of this very call are taken up; others are removed.
    async fn free_ports(
        &self,
        cluster: &str,
        wanted: &BTreeMap<String, Value>,
        own: bool,
    ) -> Result<BTreeMap<String, Port>> {
        let mut found = BTreeMap::new();
        for port in self.ports(cluster).await? {
            if !wanted.contains_key(&port.name) || !port.device_id.is_empty() {
                continue;
            }
            if own {
                found.insert(port.name.clone(), port);
            } else {
                self.delete_port(&port).await?;
            }
        }
        Ok(found)
    }

    async fn port_body(&self, cluster: &str, new: &NewInstance) -> Result<Value> {
        let mut groups = new.security_groups.clone();
        groups.extend(self.named_security_groups().await?);
        let mut port = json!({
            "name": new.name,
            "network_id": new.network,
            "description": describe(&of_cluster(cluster)),
            "security_groups": groups,
        });
        let subnet = self.chosen_subnet(&new.network).await?;
        let mut fixed = serde_json::Map::new();
        fixed.extend(subnet.map(|id| ("subnet_id".to_string(), json!(id))));
        fixed.extend(new.address.map(|address| ("ip_address".to_string(), json!(address))));
        if !fixed.is_empty() {
            port["fixed_ips"] = json!([fixed]);
        }
        Ok(port)
    }

    /// With its floating IPs, which would otherwise stay without a port.
    pub(super) async fn delete_port(&self, port: &Port) -> Result<()> {
        if cluster_of(&port.labels()).is_none() {
            return Ok(());
        }
        self.release_floating(&port.id).await?;
        self.client.delete(Network, &format!("/ports/{}", port.id)).await
    }

    /// The ids of the security groups that the cluster file names.
    pub(super) async fn named_security_groups(&self) -> Result<Vec<String>> {
        let mut known = self.known.security_groups.lock().await;
        if let Some(ids) = known.as_ref() {
            return Ok(ids.clone());
        }
        let mut ids = Vec::new();
        for name in &self.settings.security_groups {
            let path = format!("/security-groups?name={}", encode(name));
            let found = self.named(&path, "security_groups").await?;
            match found.as_slice() {
                [only] => ids.push(only.id.clone()),
                [] => return Err(Error::not_found("security group", name.clone())),
                _ => return Err(Error::conflict(format!("several security groups are named {name}"))),
            }
        }
        Ok(known.insert(ids).clone())
    }

    /// Where the cluster file names one of several subnets of a network.
    async fn chosen_subnet(&self, network: &str) -> Result<Option<String>> {
        let Some(cidr) = self.settings.chosen_subnet() else { return Ok(None) };
        let mut known = self.known.subnet.lock().await;
        if let Some((_, subnet)) = known.as_ref().filter(|(of, _)| of == network) {
            return Ok(Some(subnet.clone()));
        }
        let path = format!("/subnets?network_id={}&cidr={}", encode(network), encode(&cidr.to_string()));
        let found: Vec<Id> = self.client.list(Network, &path, "subnets").await?;
        let Some(subnet) = found.into_iter().next() else { return Ok(None) };
        *known = Some((network.to_string(), subnet.id.clone()));
        Ok(Some(subnet.id))
    }
}
