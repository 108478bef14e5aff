//! Servers on their way out, with their ports and floating IPs.

use std::collections::{BTreeMap, BTreeSet};

use super::driver::{Driver, LOOK_EVERY};
use super::labels::cluster_of;
use super::servers::POWER_LIMIT;
use super::session::Service::Compute;
use super::wire::Port;
use crate::remote::bounded;
use crate::{Class, Error, Instance, InstanceStatus, Result};

/// A server that exists.
struct Found {
    cluster: Option<String>,
    name: String,
}

impl Driver {
    pub async fn delete(&self, id: &str) -> Result<()> {
        self.delete_all(&[id.to_string()], &|_| {}).await.into_iter().collect()
    }

    /// Asked for all together, then watched in listings, and each that is in none asked for once; `gone` hears of each.
    pub async fn delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>> {
        match self.try_delete_all(ids, gone).await {
            Ok(results) => results,
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn try_delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Result<Vec<Result<()>>> {
        let found = self.find_own(ids).await?;
        let clusters: BTreeSet<&str> = found.values().filter_map(|f| f.cluster.as_deref()).collect();
        // While they are still the servers': a port that was freed does not say whose it was.
        let mut ports: Vec<Port> = Vec::new();
        for cluster in &clusters {
            ports.extend(self.ports(cluster).await?);
        }
        let asked = bounded(ids.to_vec(), |id: String| {
            let found = found.get(&id).map(|f| f.cluster.is_some());
            async move {
                match found {
                    None => Ok(()),
                    Some(false) => Err(Error::conflict(format!("server {id} is not Kiln's"))),
                    Some(true) => self.client.delete(Compute, &format!("/servers/{id}")).await,
                }
            }
        })
        .await;
        let mut waiting: Vec<&String> =
            ids.iter().zip(&asked).filter(|(_, a)| a.is_ok()).map(|(id, _)| id).collect();
        let deadline = tokio::time::Instant::now() + POWER_LIMIT;
        while !waiting.is_empty() {
            let mut left = Vec::new();
            for cluster in &clusters {
                left.extend(self.instances(cluster).await?);
            }
            let is_left = |id: &String| left.iter().any(|i| i.id == *id);
            let (mut still, unlisted): (Vec<&String>, Vec<&String>) =
                waiting.into_iter().partition(|id| is_left(id));
            let mut over = Vec::new();
            for (id, gone) in unlisted.iter().zip(bounded(unlisted.clone(), |id| self.is_gone(id)).await) {
                if gone? { over.push(*id) } else { still.push(*id) }
            }
            let mut freed: Vec<Port> =
                ports.iter().filter(|p| over.iter().any(|id| **id == p.device_id)).cloned().collect();
            freed.extend(self.given_back(&found, &over, &ports, &left).await?);
            let deleted = bounded(freed, |port: Port| async move { self.delete_port(&port).await }).await;
            deleted.into_iter().collect::<Result<Vec<()>>>()?;
            for id in over {
                gone(id);
            }
            waiting = still;
            if let Some(stuck) = left
                .iter()
                .find(|i| waiting.contains(&&i.id) && matches!(i.status, InstanceStatus::Error { .. }))
                && let InstanceStatus::Error { reason } = &stuck.status
                && tokio::time::Instant::now() >= deadline
            {
                return Err(Error::failed(format!("{} cannot be deleted: {reason}", stuck.name)));
            }
            if !waiting.is_empty() {
                if tokio::time::Instant::now() >= deadline {
                    return Err(Error::failed(format!("{} instances are not gone in time", waiting.len())));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(asked)
    }

    /// Ports that Nova has taken back from servers that it could not build: they are nobody's by now, and have the name alone.
    /// `left`: servers that may have a port of this name still to come.
    async fn given_back(
        &self,
        found: &BTreeMap<String, Found>,
        over: &[&String],
        ports: &[Port],
        left: &[Instance],
    ) -> Result<Vec<Port>> {
        let names: Vec<&Found> = over.iter().filter_map(|id| found.get(*id)).collect();
        let is_theirs = |port: &Port| {
            let named = names
                .iter()
                .any(|f| f.name == port.name && cluster_of(&port.labels()) == f.cluster.as_deref());
            named && port.device_id.is_empty() && !left.iter().any(|instance| instance.name == port.name)
        };
        if !ports.iter().any(is_theirs) {
            return Ok(Vec::new());
        }
        // As they are now: another server may have got one meanwhile.
        let clusters: BTreeSet<&str> = names.iter().filter_map(|f| f.cluster.as_deref()).collect();
        let mut now = Vec::new();
        for cluster in clusters {
            now.extend(self.ports(cluster).await?.into_iter().filter(is_theirs));
        }
        Ok(now)
    }

    /// A list lacks the servers of a cell that does not answer: such a server may still run, with its port.
    async fn is_gone(&self, id: &str) -> Result<bool> {
        match self.server(id).await {
            // What can still be brought back is in no list either, but keeps its volumes and its port until then.
            Ok(server) if server.status == "SOFT_DELETED" => match self.delete_for_good(id).await {
                Ok(()) => Ok(false),
                Err(error) if error.is_conflict() => Ok(false),
                // Left to the cloud, which does it in time.
                Err(error) if error.is_not_found() || error.class == Class::NoRights => Ok(true),
                Err(error) => Err(error),
            },
            Ok(server) => Ok(server.status == "DELETED"),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) if error.class == Class::Unanswered => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Those that exist, each with its cluster if it has one. One listing answers for all of a cluster.
    async fn find_own(&self, ids: &[String]) -> Result<BTreeMap<String, Found>> {
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        for id in ids {
            if found.contains_key(id) {
                continue;
            }
            let server = match self.server(id).await {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            let cluster = cluster_of(&server.metadata).map(String::from);
            if let Some(cluster) = &cluster {
                for instance in self.instances(cluster).await? {
                    found.insert(instance.id, Found { cluster: Some(cluster.clone()), name: instance.name });
                }
            }
            found.insert(id.clone(), Found { cluster, name: server.name });
        }
        Ok(found)
    }
}

#[cfg(test)]
#[path = "delete_tests.rs"]
mod tests;
