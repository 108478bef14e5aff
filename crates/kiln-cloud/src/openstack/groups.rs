//! Server groups: where the nodes of a group are to be near to or far from one another. They have no labels; their
//! names hold what no cluster's or group's name can.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::take;
use super::driver::Driver;
use super::labels::cluster_of;
use super::session::Service::Compute;
use crate::retry::{Policy, retry};
use crate::{Labels, Result};
use kiln_wire::labels;

#[derive(Debug, Clone, Deserialize)]
struct ServerGroup {
    id: String,
    name: String,
}

const PAGE: usize = 200;

impl Driver {
    /// `None`: the cluster file wants no such groups.
    pub(super) async fn ensure_server_group(&self, labels: &Labels) -> Result<Option<String>> {
        let (Some(policy), Some(cluster)) = (&self.settings.server_group, cluster_of(labels)) else {
            return Ok(None);
        };
        let Some(group) = labels.get(labels::GROUP) else { return Ok(None) };
        let name = format!("{}{group}", prefix(cluster));
        let mut known = self.known.server_groups.lock().await;
        if let Some(id) = known.get(&name) {
            return Ok(Some(id.clone()));
        }
        let body = json!({ "server_group": { "name": name, "policy": policy } });
        let (wanted, body) = (&name, &body);
        let found = retry(&Policy::REMOTE, |_| async move {
            let there = self.server_groups().await?.into_iter().find(|g| g.name == *wanted);
            if let Some(there) = there {
                return Ok(there);
            }
            let answer =
                self.client.request(Compute, Method::POST, "/os-server-groups", Some(body)).once().await?;
            take(answer, "server_group", "/os-server-groups")
        })
        .await?;
        known.insert(name, found.id.clone());
        Ok(Some(found.id))
    }

    /// Unlike other lists, this one is paged by number.
    async fn server_groups(&self) -> Result<Vec<ServerGroup>> {
        let mut all: Vec<ServerGroup> = Vec::new();
        loop {
            let path = format!("/os-server-groups?limit={PAGE}&offset={}", all.len());
            let page: Vec<ServerGroup> = self.client.get(Compute, &path, "server_groups").await?;
            let full = page.len() == PAGE;
            all.extend(page);
            if !full {
                return Ok(all);
            }
        }
    }

    pub(super) async fn delete_server_groups(&self, cluster: &str) -> Result<()> {
        for group in self.server_groups().await? {
            if group.name.starts_with(&prefix(cluster)) {
                self.client.delete(Compute, &format!("/os-server-groups/{}", group.id)).await?;
            }
        }
        Ok(())
    }
}

fn prefix(cluster: &str) -> String {
    format!("kiln:{cluster}:")
}
