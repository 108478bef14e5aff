//! Drives rollouts: looks, lets the planner decide, and does what it says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_cloud::InstanceStatus;
use kiln_slurm::{Job, Slurm};
use tokio_util::sync::CancellationToken;

use super::execute::Executor;
use crate::cloud_view;
use crate::cloud_view::image_of;
use crate::control_loop::Controller;
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::rollout::{JobSeen, Limits, Seen, plan};
use crate::store::{Request, Store, now};
use kiln_wire::rollout::{NodeStep, Rollout};

pub struct Rollouts {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    pub every: Duration,
    pub stop: CancellationToken,
}

impl Controller for Rollouts {
    const NAME: &'static str = "rollouts";

    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        turn(&self.store, &self.slurm, fleet, &self.stop).await
    }

    async fn wait(&mut self, _: Option<&Fleet>) {
        tokio::time::sleep(self.every).await;
    }
}

/// One look at the world and what follows from it.
async fn turn(store: &Store, slurm: &Slurm, fleet: &Fleet, stop: &CancellationToken) -> Result<()> {
    let open = store.open_rollouts()?;
    if open.is_empty() {
        return Ok(());
    }
    let world = World::observe(store, slurm, fleet, &open).await?;
    for mut rollout in open {
        let mut executor = Executor { store, slurm, fleet, rollout: &mut rollout };
        executor.adopt(&world.jobs)?;
        let seen = world.seen(slurm, executor.rollout).await?;
        let limits = Limits {
            slurm_waits: Duration::from_secs(fleet.file.resume_timeout),
            concurrency: fleet.file.concurrency,
        };
        for action in plan(executor.rollout, &seen, limits, now()) {
            if stop.is_cancelled() {
                return Ok(());
            }
            executor.execute(action).await?;
        }
    }
    Ok(())
}

struct World {
    instances: BTreeMap<String, kiln_cloud::Instance>,
    nodes: BTreeMap<String, kiln_slurm::Node>,
    requests: BTreeMap<String, Request>,
    jobs: Vec<Job>,
}

impl World {
    /// Jobs are looked at first: a job that is over has done all it will do by the time of the other looks.
    async fn observe(store: &Store, slurm: &Slurm, fleet: &Fleet, rollouts: &[Rollout]) -> Result<World> {
        let mut partitions: Vec<String> =
            rollouts.iter().flat_map(|r| r.nodes.iter().map(|n| n.partition.clone())).collect();
        partitions.sort();
        partitions.dedup();
        let jobs = slurm.jobs(&partitions).await?;
        // Before the instances, so that a request which is done has its effect there.
        let requests = store.latest_requests()?.into_iter().map(|r| (r.node.clone(), r)).collect();
        let nodes = slurm.nodes().await?;
        let instances = cloud_view::instances(fleet).await.map_err(Error::from)?;
        Ok(World { instances, nodes, requests, jobs })
    }

    async fn seen(&self, slurm: &Slurm, rollout: &Rollout) -> Result<BTreeMap<String, Seen>> {
        let mut all = BTreeMap::new();
        for node in &rollout.nodes {
            let instance = self.instances.get(&node.node);
            let status = instance.map(|i| &i.status);
            let job = match node.step.job() {
                Some(job) => Some(self.job(slurm, job).await?),
                None => None,
            };
            all.insert(
                node.node.clone(),
                Seen {
                    image: instance.and_then(image_of).map(String::from),
                    created: instance.map(|i| i.created),
                    active: status == Some(&InstanceStatus::Active),
                    building: matches!(status, Some(InstanceStatus::Building | InstanceStatus::Rebuilding)),
                    request: self.requests.get(&node.node).cloned(),
                    slurm: self.nodes.get(&node.node).cloned(),
                    job,
                },
            );
        }
        Ok(all)
    }

    async fn job(&self, slurm: &Slurm, id: u64) -> Result<JobSeen> {
        if let Some(job) = self.jobs.iter().find(|job| job.id == id) {
            return Ok(JobSeen::Known { state: job.state.clone(), reason: job.reason.clone() });
        }
        let past = slurm.past_job(id).await?;
        Ok(past.map_or(JobSeen::Gone, |state| JobSeen::Known { state, reason: String::new() }))
    }
}

impl Executor<'_> {
    /// Finds the jobs of nodes that were being submitted when the daemon was ended.
    fn adopt(&mut self, jobs: &[Job]) -> Result<()> {
        let lost: Vec<_> = (self.rollout.nodes.iter())
            .filter(|n| n.step == NodeStep::Pending && n.begun.is_some())
            .map(|n| (n.node.clone(), self.comment(n)))
            .collect();
        for (node, comment) in lost {
            if let Some(job) = jobs.iter().filter(|job| job.comment == comment).map(|job| job.id).max() {
                self.step(&node, NodeStep::Submitted { job }, Some("found again".into()))?;
            }
        }
        Ok(())
    }
}
