//! Waiting for instances that the cloud has promised.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_image::{Event, unless_stopped};
use kiln_spec::hostlist;
use tokio::time::{Instant, sleep};

use crate::apply::collect;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::node_of;

/// How long the cloud may take to build, or rebuild, all instances.
const ACTIVE_LIMIT: Duration = Duration::from_secs(900);

impl Deployment<'_> {
    /// Until no instance is being built. Those that broke meanwhile are told, each in the cloud's words.
    pub(crate) async fn wait_active(&self) -> Result<()> {
        let deadline = Instant::now() + ACTIVE_LIMIT;
        // Where it stopped waiting, the next run goes on.
        unless_stopped(self.stop, self.all_built(deadline)).await.unwrap_or(Err(Error::Stopped))
    }

    async fn all_built(&self, deadline: Instant) -> Result<()> {
        let mut awaited: BTreeSet<String> = BTreeSet::new();
        loop {
            let instances = self.cloud.instances(&self.spec.name).await?;
            // kilnd has its own eye on nodes that come and go.
            let ours = instances.iter().filter(|i| self.spec.node(node_of(i)).is_some_and(|n| !n.elastic));
            let building: Vec<&Instance> = ours.clone().filter(|i| is_building(i)).collect();
            awaited.extend(building.iter().map(|i| i.id.clone()));
            if building.is_empty() {
                let active = ours.clone().filter(|i| awaited.contains(&i.id));
                let active = active.filter(|i| i.status == InstanceStatus::Active).map(node_of);
                let names = hostlist::fold(active);
                if !names.is_empty() {
                    (self.progress)(Event::done(names, "active"));
                }
                return collect(ours.map(|i| self.is_whole(i)).collect());
            }
            if Instant::now() >= deadline {
                let late = building.into_iter().map(|i| {
                    Err(Error::NotActive { node: node_of(i).into(), status: i.status.word().into() })
                });
                return collect(late.collect());
            }
            sleep(self.cloud.poll_interval()).await;
        }
    }

    fn is_whole(&self, instance: &Instance) -> Result<()> {
        let InstanceStatus::Error { reason } = &instance.status else { return Ok(()) };
        let node = node_of(instance);
        (self.progress)(Event::failed(node, reason.clone()));
        Err(Error::Broken { node: node.into(), reason: reason.clone() })
    }
}

fn is_building(instance: &Instance) -> bool {
    matches!(instance.status, InstanceStatus::Building | InstanceStatus::Rebuilding)
}
