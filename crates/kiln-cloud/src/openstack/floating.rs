//! Floating IPs: how login nodes are reached from outside.

use std::collections::BTreeMap;
use std::net::IpAddr;

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::take;
use super::driver::Driver;
use super::labels::{cluster_of, describe, of_cluster, read};
use super::session::Service::Network;
use super::wire::{NamedId, Port};
use crate::remote::encode;
use crate::retry::{Policy, retry};
use crate::{Error, Labels, Result};

#[derive(Debug, Deserialize)]
pub(super) struct Floating {
    id: String,
    #[serde(rename = "floating_ip_address")]
    address: IpAddr,
    #[serde(default)]
    fixed_ip_address: Option<IpAddr>,
    #[serde(default)]
    description: Option<String>,
}

impl Driver {
    /// `None`: the cluster file names no external network.
    pub(super) async fn ensure_floating(&self, port: &Port, labels: &Labels) -> Result<Option<IpAddr>> {
        let Some(external) = self.external_network().await? else { return Ok(None) };
        let cluster = cluster_of(labels).unwrap_or_default();
        let body = json!({ "floatingip": {
            "floating_network_id": external,
            "port_id": port.id,
            "description": describe(&of_cluster(cluster)),
        }});
        let (path, body) = (format!("/floatingips?port_id={}", port.id), &body);
        let path = &path;
        let floating = retry(&Policy::REMOTE, |_| async move {
            let there: Vec<Floating> = self.client.list(Network, path, "floatingips").await?;
            if let Some(there) = there.into_iter().next() {
                return Ok(there);
            }
            let answer =
                self.client.request(Network, Method::POST, "/floatingips", Some(body)).once().await?;
            take(answer, "floatingip", "/floatingips")
        })
        .await?;
        Ok(Some(floating.address))
    }

    /// The cluster's floating IPs, by the addresses they lead to.
    pub(super) async fn floating_of(&self, cluster: &str) -> Result<BTreeMap<IpAddr, IpAddr>> {
        if self.settings.external_network.is_none() {
            return Ok(BTreeMap::new());
        }
        let path = format!("/floatingips?description={}", encode(&describe(&of_cluster(cluster))));
        let all: Vec<Floating> = self.client.list_own(Network, &path, "floatingips").await?;
        Ok(all.into_iter().filter_map(|f| Some((f.fixed_ip_address?, f.address))).collect())
    }

    /// Those of a port that are Kiln's own. One that a person lent to the node stays theirs.
    pub(super) async fn release_floating(&self, port: &str) -> Result<()> {
        let path = format!("/floatingips?port_id={}", encode(port));
        self.delete_floating(&path).await
    }

    pub(super) async fn release_all_floating(&self, cluster: &str) -> Result<()> {
        let path = format!("/floatingips?description={}", encode(&describe(&of_cluster(cluster))));
        self.delete_floating(&path).await
    }

    async fn delete_floating(&self, path: &str) -> Result<()> {
        let there: Vec<Floating> = self.client.list_own(Network, path, "floatingips").await?;
        for floating in there {
            if cluster_of(&read(floating.description.as_deref())).is_some() {
                self.client.delete(Network, &format!("/floatingips/{}", floating.id)).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn external_network(&self) -> Result<Option<String>> {
        let Some(name) = &self.settings.external_network else { return Ok(None) };
        let find = || async {
            let path = format!("/networks?name={}&router:external=true", encode(name));
            let found: Vec<NamedId> = self.client.list(Network, &path, "networks").await?;
            match found.as_slice() {
                [only] => Ok(only.id.clone()),
                [] => Err(Error::not_found("external network", name.clone())),
                _ => Err(Error::conflict(format!("several external networks are named {name}"))),
            }
        };
        self.known.external_network.get_or_try_init(find).await.cloned().map(Some)
    }
}
