//! Work on many nodes at once, a bounded number at a time.

use std::future::Future;

use kiln_cloud::InstanceStatus;
use kiln_spec::Spec;
use kiln_ssh::Host;
use kiln_wire::labels;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::sleep::Sleep;

/// What a command did on one node.
#[derive(Debug, Clone, Serialize)]
pub struct ExecOutcome {
    pub node: String,
    /// `None`: the node could not be reached; `stderr` says why.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `work` for every item, at most `limit` at a time, and returns the results in the items' order.
pub async fn bounded<T, R, F>(items: Vec<T>, limit: usize, work: impl Fn(T) -> F) -> Vec<R>
where
    F: Future<Output = R>,
{
    let permits = Semaphore::new(limit.max(1));
    let run = |item: T| {
        let future = work(item);
        async {
            // The semaphore is never closed.
            let _permit = permits.acquire().await;
            future.await
        }
    };
    futures_util::future::join_all(items.into_iter().map(run)).await
}

/// The hosts of these nodes, with the addresses the cloud gives.
pub fn hosts<'n>(
    spec: &Spec,
    observed: &Observed,
    nodes: impl Iterator<Item = &'n str>,
) -> Result<Vec<Host>> {
    let known = observed.nodes();
    let build = observed.build.as_ref();
    // Where some nodes have an address outside, the others are reached through the first of them.
    let outside = |node: kiln_spec::Node<'_>| {
        let address = known.get(node.name)?.public_address?;
        Some(Host::new(node.name, address))
    };
    let jump = spec.nodes().find_map(outside);
    nodes
        .map(|name| {
            if let Some(address) = build.filter(|b| b.name == name).and_then(kiln_cloud::Instance::reach) {
                return Ok(Host::new(name, address));
            }
            if spec.node(name).is_none() {
                return Err(Error::UnknownNode(name.to_string()));
            }
            let instance = known.get(name).copied();
            if instance.is_some_and(|i| i.status == InstanceStatus::Stopped)
                && let Sleep::Asleep { since } = observed.sleep(spec)
            {
                return Err(Error::Asleep { cluster: spec.name.clone(), since });
            }
            let address = instance.and_then(kiln_cloud::Instance::reach);
            let mut host = Host::new(name, address.ok_or_else(|| Error::NoInstance(name.to_string()))?);
            if instance.is_some_and(|i| i.public_address.is_none()) {
                host.jump = jump.clone().map(Box::new);
            }
            Ok(host)
        })
        .collect()
}

impl Deployment<'_> {
    /// The hosts of these nodes, with the addresses the cloud gives.
    pub fn hosts<'n>(&self, observed: &Observed, nodes: impl Iterator<Item = &'n str>) -> Result<Vec<Host>> {
        hosts(self.spec, observed, nodes)
    }

    /// The end of a node's console log.
    pub async fn console_log(&self, node: &str, lines: usize) -> Result<String> {
        if self.spec.node(node).is_none() {
            return Err(Error::UnknownNode(node.to_string()));
        }
        let instances = self.cloud.instances(&self.spec.name).await?;
        let instance = instances.iter().find(|i| node_of(i) == node);
        let instance = instance.ok_or_else(|| Error::NoInstance(node.to_string()))?;
        Ok(self.cloud.console_log(&instance.id, lines).await?)
    }

    /// Runs a command on nodes. Nodes that cannot be reached do not stop it on the others.
    pub async fn exec(&self, hosts: Vec<Host>, argv: &[&str]) -> Result<Vec<ExecOutcome>> {
        let ssh = self.ssh()?;
        let run = |host: Host| {
            let ssh = &ssh;
            async move {
                match ssh.output(&host, argv, b"").await {
                    Ok(output) => ExecOutcome {
                        node: host.name,
                        status: Some(output.status),
                        stdout: output.stdout,
                        stderr: output.stderr,
                    },
                    Err(error) => ExecOutcome {
                        node: host.name,
                        status: None,
                        stdout: String::new(),
                        stderr: error.to_string(),
                    },
                }
            }
        };
        Ok(bounded(hosts, self.spec.concurrency, run).await)
    }
}

/// The name of the node that an instance belongs to, by its label.
pub fn node_of(instance: &kiln_cloud::Instance) -> &str {
    instance.labels.get(labels::NODE).map_or(instance.name.as_str(), String::as_str)
}
