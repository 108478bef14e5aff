//! Networks that Kiln makes: a VCN with one regional subnet. Nodes reach the outside through a NAT gateway; those that are
//! reached from outside through an internet gateway, with a route table of their own.
//!
//! The id of such a network is the VCN's; of one that exists, the subnet's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::client::Call;
use super::driver::{Driver, PACE, PAGE, checked, cluster_of, missing, not_ours};
use super::region::Service::Core;
use super::wire::{Part, State, WireAttachment, WireVnic};
use crate::remote::{encode, until};
use crate::retry::{Policy, retry};
use crate::{Error, Labels, Network, NetworkPart, NewNetwork, Result};
use kiln_wire::labels;

/// For a network whose addresses nobody cares about.
const ANY: &str = "10.213.0.0/24";
const READY_LIMIT: std::time::Duration = std::time::Duration::from_secs(300);
const EVERYWHERE: &str = "0.0.0.0/0";

impl Driver {
    /// Those that Kiln made for the cluster.
    pub async fn networks(&self, cluster: &str) -> Result<Vec<Network>> {
        let vcns: Vec<Part> = self.client.list(Core, &self.in_compartment("vcns")).await?;
        let own = |vcn: &Part| cluster_of(&vcn.freeform_tags) == Some(cluster) && vcn.is_there();
        let mut networks = Vec::new();
        for vcn in vcns.into_iter().filter(own) {
            // Made last: what is there before it is complete.
            let subnet = self.parts("subnets", &vcn.id).await?.into_iter().find(Part::is_there);
            let cidr = subnet.as_ref().and_then(|s| s.cidr_block).or(vcn.cidr_blocks.first().copied());
            networks.push(Network {
                id: vcn.id,
                name: vcn.display_name,
                cidr: cidr.map_or_else(any_subnet, Ok)?,
                labels: vcn.freeform_tags,
                lacks: subnet.is_none().then_some(NetworkPart::Subnet),
                api_url: None,
                automatic: Vec::new(),
            });
        }
        Ok(networks)
    }

    /// A subnet that exists, by its name or id: for the cluster to use, not to own.
    pub async fn network_by_name(&self, name: &str) -> Result<Option<Network>> {
        let found: Vec<Part> = if name.starts_with("ocid1.subnet.") {
            let path = format!("/subnets/{}", checked("subnet", name)?);
            match self.client.get(Core, &path).await {
                Err(error) if error.is_not_found() => vec![],
                other => vec![other?],
            }
        } else {
            let path = format!("{}&displayName={}", self.in_compartment("subnets"), encode(name));
            self.client.list(Core, &path).await?
        };
        let found: Vec<Part> = found.into_iter().filter(Part::is_there).collect();
        match found.as_slice() {
            [] => Ok(None),
            [subnet] => Ok(Some(Network {
                id: subnet.id.clone(),
                name: subnet.display_name.clone(),
                cidr: subnet
                    .cidr_block
                    .ok_or_else(|| Error::refused(format!("subnet {name} has no IPv4 addresses")))?,
                labels: Labels::new(),
                lacks: None,
                api_url: None,
                automatic: Vec::new(),
            })),
            _ => Err(Error::conflict(format!("several subnets are named {name}; Kiln cannot choose"))
                .with_hint("`network` takes a subnet's OCID as well")),
        }
    }

    /// Every part is looked for before it is made, so a call that was cut off is completed by the next one.
    pub async fn create_network(&self, new: NewNetwork) -> Result<Network> {
        let cidr = new.cidr.map_or_else(any_subnet, Ok)?;
        let vcn = self.ensure("vcns", None, &new.name, &new.labels, json!({ "cidrBlocks": [cidr] })).await?;
        let (id, labels) = (vcn.id.as_str(), &new.labels);
        let part = |what: &str| format!("{}-{what}", new.name);
        let ensure = |kind: &'static str, name: String, body: Value| async move {
            self.ensure(kind, Some(id), &name, labels, body).await
        };
        let internet = ensure("internetGateways", part("internet"), json!({ "isEnabled": true })).await?;
        let nat = ensure("natGateways", part("nat"), json!({})).await?;
        let via = |gateway: &str| {
            json!({ "routeRules": [{ "destination": EVERYWHERE, "destinationType": "CIDR_BLOCK",
                                     "networkEntityId": gateway }] })
        };
        ensure("routeTables", part(PUBLIC), via(&internet.id)).await?;
        let routes = ensure("routeTables", part("private"), via(&nat.id)).await?;
        // Groups say who may connect to whom; the VCN's own list would let SSH in everywhere.
        let none = json!({ "ingressSecurityRules": [], "egressSecurityRules": [] });
        let list = ensure("securityLists", new.name.clone(), none).await?;
        let body = json!({ "cidrBlock": cidr, "routeTableId": routes.id, "securityListIds": [list.id] });
        let subnet = ensure("subnets", new.name.clone(), body).await?;
        if subnet.cidr_block != Some(cidr) {
            return Err(Error::conflict(format!("network {} has another subnet than {cidr}", new.name)));
        }
        Ok(Network {
            id: vcn.id.clone(),
            name: new.name.clone(),
            cidr,
            labels: new.labels.clone(),
            lacks: None,
            api_url: None,
            automatic: Vec::new(),
        })
    }

    async fn parts(&self, kind: &str, vcn: &str) -> Result<Vec<Part>> {
        let path = format!("{}&vcnId={}", self.in_compartment(kind), encode(vcn));
        self.client.list(Core, &path).await
    }

    /// Found by its name and labels, else made. Returns when it can be used.
    pub(super) async fn ensure(
        &self,
        kind: &str,
        vcn: Option<&str>,
        name: &str,
        labels: &Labels,
        mut body: Value,
    ) -> Result<Part> {
        body["compartmentId"] = json!(self.settings.compartment);
        body["displayName"] = json!(name);
        body["freeformTags"] = json!(labels);
        let mut filter = format!("{}&displayName={}", self.in_compartment(kind), encode(name));
        if let Some(vcn) = vcn {
            body["vcnId"] = json!(vcn);
            filter = format!("{filter}&vcnId={}", encode(vcn));
        }
        let token = super::client::retry_token();
        let (filter, body, token) = (&filter, &body, &token);
        let found = retry(&Policy::REMOTE, |_| async move {
            let there: Vec<Part> = self.client.list(Core, filter).await?;
            let own = |part: &Part| {
                part.is_there()
                    && cluster_of(&part.freeform_tags) == cluster_of(labels)
                    && part.freeform_tags.get(labels::ROLE) == labels.get(labels::ROLE)
            };
            if let Some(own) = there.into_iter().find(own) {
                return Ok(own);
            }
            let call = Call::post(Core, format!("/{kind}"), body).with_token(token);
            self.client.send_once(&call).await?.read(kind)
        })
        .await?;
        if found.lifecycle_state == "AVAILABLE" {
            return Ok(found);
        }
        let path = format!("/{kind}/{}", found.id);
        until(
            PACE,
            READY_LIMIT,
            || format!("{name} is not ready"),
            || async {
                let now: Part = self.client.get(Core, &path).await?;
                Ok((now.lifecycle_state == "AVAILABLE").then_some(now))
            },
        )
        .await
    }

    /// The subnet of a network, given as VCN or subnet.
    pub(super) async fn subnet_of(&self, network: &str) -> Result<String> {
        if network.starts_with("ocid1.subnet.") {
            return Ok(network.to_string());
        }
        let mut known = self.known.subnets.lock().await;
        if let Some(subnet) = known.get(network) {
            return Ok(subnet.clone());
        }
        let found = self.parts("subnets", checked("network", network)?).await?;
        let subnet = found.into_iter().find(Part::is_there);
        let subnet = subnet.ok_or_else(|| Error::not_found("subnet of network", network.to_string()))?;
        known.insert(network.to_string(), subnet.id.clone());
        Ok(subnet.id)
    }

    /// Lets an instance be reached from outside. Oracle takes the route table of a VNIC only after the launch, so this is
    /// done where the address is first asked for. `None`: the VNIC is not there yet.
    pub(super) async fn open_way(&self, vnic: &str, subnet: Option<&str>) -> Result<Option<WireVnic>> {
        let there = match self.vnic(vnic).await {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let Some(subnet) = subnet else { return Ok(None) };
        let subnet: Part = self.client.get(Core, &format!("/subnets/{}", checked("subnet", subnet)?)).await?;
        // Somebody else's subnet has the routes that its owner wants.
        let (Some(vcn), Some(_)) = (&subnet.vcn_id, cluster_of(&subnet.freeform_tags)) else {
            return Ok(Some(there));
        };
        let tables = self.parts("routeTables", vcn).await?;
        let name = format!("{}-{PUBLIC}", subnet.display_name);
        let Some(table) = tables.into_iter().find(|table| table.display_name == name) else {
            return Ok(Some(there));
        };
        if there.route_table_id.as_ref() == Some(&table.id) {
            return Ok(Some(there));
        }
        let body = json!({ "routeTableId": table.id });
        let path = format!("/vnics/{}", there.id);
        self.client.send(&Call::put(Core, path, &body)).await?.read("a VNIC").map(Some)
    }

    /// Addresses of a network that others have.
    pub async fn foreign_addresses(&self, network: &str, cluster: &str) -> Result<BTreeMap<IpAddr, String>> {
        let subnet = self.subnet_of(network).await?;
        let own: Vec<String> = self.instances(cluster).await?.into_iter().map(|i| i.id).collect();
        let path = self.in_compartment("vnicAttachments");
        let attachments: Vec<WireAttachment> = self.client.list(Core, &path).await?;
        let ours: Vec<String> = attachments
            .into_iter()
            .filter(|a| own.contains(&a.instance_id))
            .filter_map(|a| a.vnic_id)
            .collect();
        let all = self.private_ips(&subnet).await?.into_iter();
        let foreign = all.filter(|ip| ip.vnic_id.as_ref().is_none_or(|vnic| !ours.contains(vnic)));
        Ok(foreign
            .filter_map(|ip| {
                let who = ip.display_name.or(ip.vnic_id).unwrap_or_else(|| "a private IP".into());
                Some((ip.ip_address?, who))
            })
            .collect())
    }

    pub async fn delete_network(&self, id: &str) -> Result<()> {
        if id.starts_with("ocid1.subnet.") {
            return Err(not_ours("subnet", id));
        }
        let path = format!("/vcns/{}", checked("network", id)?);
        let vcn: Part = match self.client.get(Core, &path).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if cluster_of(&vcn.freeform_tags).is_none() {
            return Err(not_ours("network", &format!("{} ({id})", vcn.display_name)));
        }
        self.check_unused(&vcn).await?;
        for kind in ["subnets", "routeTables", "securityLists", "internetGateways", "natGateways"] {
            for part in self.parts(kind, id).await? {
                // The VCN's defaults go with it.
                if part.is_there() && cluster_of(&part.freeform_tags).is_some() {
                    self.delete_part(&format!("/{kind}/{}", part.id)).await?;
                }
            }
        }
        self.known.subnets.lock().await.remove(id);
        self.delete_part(&path).await
    }

    /// That no instance is in the VCN but those of its cluster, which are about to go: nobody would ever see the end of waiting
    /// for others.
    async fn check_unused(&self, vcn: &Part) -> Result<()> {
        let subnets: Vec<String> = self.parts("subnets", &vcn.id).await?.into_iter().map(|s| s.id).collect();
        let attachments: Vec<WireAttachment> =
            self.client.list(Core, &self.in_compartment("vnicAttachments")).await?;
        let is_here = |a: &&WireAttachment| a.subnet_id.as_ref().is_some_and(|id| subnets.contains(id));
        for attachment in attachments.iter().filter(|a| a.holds()).filter(is_here) {
            let instance = match self.wire_instance(&attachment.instance_id).await {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            let is_going = [State::Terminating, State::Terminated].contains(&instance.lifecycle_state);
            if !is_going && cluster_of(&instance.freeform_tags) != cluster_of(&vcn.freeform_tags) {
                return Err(Error::conflict(format!(
                    "instance {}, which is not the cluster's, uses network {}",
                    instance.display_name, vcn.display_name
                ))
                .with_hint("whoever made it has to delete it; the same command then goes on"));
            }
        }
        Ok(())
    }

    /// Returns when it is gone. What stands in its way, a VNIC for example, may take a moment to go.
    pub(super) async fn delete_part(&self, path: &str) -> Result<()> {
        self.while_busy(|| self.client.delete(Core, path)).await?;
        until(
            PACE,
            READY_LIMIT,
            || format!("{path} is not gone"),
            || async {
                match self.client.get::<Part>(Core, path).await {
                    Err(error) if error.is_not_found() => Ok(Some(())),
                    Ok(part) if part.lifecycle_state == "TERMINATED" => Ok(Some(())),
                    answer => answer.map(|_| None),
                }
            },
        )
        .await
    }

    /// The VCN that the cluster's groups are in.
    pub(super) async fn vcn_of(&self, labels: &Labels) -> Result<String> {
        let cluster = cluster_of(labels).unwrap_or_default();
        let own = self.networks(cluster).await?;
        let same = own.iter().find(|n| n.labels.get(labels::ROLE) == labels.get(labels::ROLE));
        if let Some(network) = same {
            return Ok(network.id.clone());
        }
        let name = self.settings.network.as_deref();
        let name = name.ok_or_else(|| Error::not_found("network of cluster", cluster.to_string()))?;
        let subnet = self.network_by_name(name).await?;
        let subnet = subnet.ok_or_else(|| Error::not_found("subnet", name.to_string()))?;
        let part: Part =
            missing(self.client.get(Core, &format!("/subnets/{}", subnet.id)).await, "subnet", name)?;
        part.vcn_id.ok_or_else(|| Error::failed(format!("subnet {name} has no VCN")))
    }

    /// In the compartment, of that kind, with the cluster's label.
    pub(super) async fn tagged(&self, kind: &str, cluster: &str) -> Result<Vec<Part>> {
        let path = format!("/{kind}?compartmentId={}&limit={PAGE}", encode(&self.settings.compartment));
        let mut all: Vec<Part> = self.client.list(Core, &path).await?;
        all.retain(|part| part.is_there() && cluster_of(&part.freeform_tags) == Some(cluster));
        Ok(all)
    }
}

const PUBLIC: &str = "public";

fn any_subnet() -> Result<Ipv4Net> {
    ANY.parse().map_err(|_| Error::failed("no subnet"))
}
