//! Waiting for instances that the cloud is building, and for nodes to be in service in Slurm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_image::Event;
use kiln_site::longest_resume_timeout;
use kiln_spec::{Node, Role, Spec, hostlist};
use kiln_ssh::{Host, Ssh};
use tokio::time::{Instant, sleep};

use crate::apply::collect;
use crate::configure::slurm_nodes;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::node_of;

/// How long the cloud may take to build, or rebuild, all instances, unless the file has machines that take longer.
const ACTIVE_LIMIT: Duration = Duration::from_secs(900);
/// How long nodes may take to join once they are configured.
const SLURM_LIMIT: Duration = Duration::from_secs(180);
/// How long those may take that have joined and must only register again, with what slurm.conf says now.
const REGISTRATION_LIMIT: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_millis(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Deployment<'_> {
    /// Waits until no instance is being built. Those that are in error are reported, each with the cloud's message.
    pub(crate) async fn wait_active(&self) -> Result<()> {
        let deadline = Instant::now() + boot_limit(self.spec, ACTIVE_LIMIT);
        // The next run continues the wait.
        self.stop.run_until_cancelled(self.all_built(deadline)).await.unwrap_or(Err(Error::Stopped))
    }

    async fn all_built(&self, deadline: Instant) -> Result<()> {
        let mut awaited: BTreeSet<String> = BTreeSet::new();
        loop {
            let instances = self.cloud.instances(&self.spec.name).await?;
            // kilnd watches elastic nodes itself.
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
                return collect(ours.map(|i| self.check_not_broken(i)).collect()).map(drop);
            }
            if Instant::now() >= deadline {
                let late = building.into_iter().map(|i| {
                    Err(Error::NotActive { node: node_of(i).into(), status: i.status.word().into() })
                });
                return collect::<()>(late.collect()).map(drop);
            }
            sleep(self.cloud.poll_interval()).await;
        }
    }

    /// Control, and the nodes that were configured.
    pub(crate) async fn wait_for_slurm(&self, ssh: &Ssh, hosts: &[Host]) -> Result<()> {
        let Some((control, others)) = hosts.split_first() else { return Ok(()) };
        // Nodes of elastic groups are there when Slurm wants them.
        let is_fixed = |node: &Node<'_>| node.role == Role::Compute && !node.elastic;
        let names = others.iter().map(|host| host.name.as_str());
        let wanted: Vec<&str> =
            names.filter(|name| self.spec.node(name).is_some_and(|n| is_fixed(&n))).collect();
        let start = Instant::now();
        let mut lifted = false;
        loop {
            self.check_stop()?;
            let known = slurm_nodes(ssh, control).await.unwrap_or_default();
            lifted = lifted || self.lift_drains_for_size(ssh, control, &known).await?;
            // A node that a person has drained waits for a person; it does not hold up the rest.
            let ready = |name: &str| {
                known.get(name).is_some_and(|node| {
                    let drained = node.state.is_drained() && !node.is_drained_for_its_size();
                    node.state.in_service() || drained || node.state.is_awaited_by_slurm()
                })
            };
            let waiting: Vec<&str> = wanted.iter().copied().filter(|name| !ready(name)).collect();
            if waiting.is_empty() {
                let drained = |name: &&str| known.get(*name).is_some_and(|n| n.state.is_drained());
                let (drained, serving): (Vec<&str>, Vec<&str>) = wanted.into_iter().partition(drained);
                let mut text = match serving.as_slice() {
                    [] => "answers".to_string(),
                    serving => format!("{} in service", hostlist::fold(serving.iter().copied())),
                };
                if !drained.is_empty() {
                    text = format!("{text}, {} drained", hostlist::fold(drained));
                }
                (self.progress)(Event::done("slurm", text));
                return Ok(());
            }
            (self.progress)(Event::working(
                "slurm",
                format!("waiting for {}", hostlist::fold(waiting.iter().copied())),
            ));
            let refused = |name: &&str| known.get(*name).is_some_and(|n| n.state.is_registration_refused());
            let limit = if waiting.iter().all(refused) { REGISTRATION_LIMIT } else { SLURM_LIMIT };
            if start.elapsed() > limit {
                let describe = |name: &&str| match known.get(*name) {
                    Some(node) => format!(
                        "  {name} is {}: {}",
                        node.state,
                        node.reason.as_deref().unwrap_or("no reason given")
                    ),
                    None => format!("  {name} is unknown to slurmctld"),
                };
                let details: Vec<String> = waiting.iter().map(describe).collect();
                return Err(Error::NotReady(format!(
                    "Slurm does not see these nodes in service:\n{}",
                    details.join("\n")
                )));
            }
            // Every look is a login on the control node, which has more to do just now.
            sleep((start.elapsed() / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        }
    }

    /// Slurm itself keeps a node drained that once registered with less than slurm.conf said, also when file or node have
    /// changed. Says whether there was one.
    async fn lift_drains_for_size(
        &self,
        ssh: &Ssh,
        control: &Host,
        known: &BTreeMap<String, kiln_slurm::Node>,
    ) -> Result<bool> {
        let fit =
            known.values().filter(|n| n.is_drained_for_its_size() && !n.state.is_registration_refused());
        let fit: Vec<&str> =
            fit.map(|n| n.name.as_str()).filter(|name| self.spec.node(name).is_some()).collect();
        if fit.is_empty() {
            return Ok(false);
        }
        let names = hostlist::fold(fit);
        ssh.run(control, &["scontrol", "update", &format!("nodename={names}"), "state=resume"], b"").await?;
        (self.progress)(Event::done(names, "back in service: slurm.conf no longer says more than they have"));
        Ok(true)
    }

    fn check_not_broken(&self, instance: &Instance) -> Result<()> {
        let InstanceStatus::Error { reason } = &instance.status else { return Ok(()) };
        let node = node_of(instance);
        (self.progress)(Event::failed(node, reason.clone()));
        Err(Error::Broken { node: node.into(), reason: reason.clone() })
    }
}

fn is_building(instance: &Instance) -> bool {
    matches!(instance.status, InstanceStatus::Building | InstanceStatus::Rebuilding)
}

/// How long machines may take to boot: as usual, or as long as the file gives its slowest ones.
pub(crate) fn boot_limit(spec: &Spec, usual: Duration) -> Duration {
    let groups = spec.compute.iter().map(|group| group.rebuild_time);
    groups.chain([longest_resume_timeout(spec)]).fold(usual, Duration::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_machines_are_waited_for() {
        let limit = |more: &str| {
            let file = format!(
                "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n{more}\n"
            );
            let spec = kiln_spec::parse(&file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
            boot_limit(&spec, ACTIVE_LIMIT).as_secs()
        };
        assert_eq!(limit(""), 900);
        assert_eq!(limit("rebuild_time = \"40m\""), 2400);
        assert_eq!(limit("image_update = \"apply\"\nrebuild_time = \"40m\""), 2400);
        assert_eq!(limit("[slurm.config]\nResumeTimeout = 1800"), 1800);
    }
}
