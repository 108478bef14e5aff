//! What a round reads for rollouts: Slurm's jobs and nodes, the store, the cloud.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_cloud::InstanceStatus;
use kiln_slurm::{Job, JobState, Node, Slurm};
use kiln_wire::rollout::Rollout;

use crate::cloud_view::{CloudView, image_of};
use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::{KnownInstance, Request, Store};

/// Of a node whose instance was deleted by somebody else.
pub const GONE: &str = "its instance is gone; `kiln up` recreates it";

/// What was observed of one node.
#[derive(Debug, Clone, Default)]
pub struct NodeObservation {
    /// Why nothing can be said about its instance, if so.
    pub doubt: Option<String>,
    pub image: Option<String>,
    /// When the instance was first seen, by this host's clock; `None`: there is none.
    pub first_seen: Option<Timestamp>,
    /// The instance runs, and no build is going on.
    pub active: bool,
    /// A build is going on.
    pub building: bool,
    /// The newest of the node.
    pub request: Option<Request>,
    pub slurm: Option<Node>,
    /// Of the node's present step; `None` if that has none.
    pub job: Option<JobObservation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobObservation {
    Known {
        state: JobState,
        /// Why it waits, in Slurm's words.
        reason: String,
    },
    /// Neither slurmctld nor the accounting knows it.
    Gone,
}

/// Everything that was observed in one round.
pub struct Observation {
    cloud: CloudView,
    known: BTreeMap<String, KnownInstance>,
    nodes: BTreeMap<String, Node>,
    requests: BTreeMap<String, Request>,
    pub jobs: Vec<Job>,
}

impl Observation {
    /// Jobs are read first: a job that is over has done all it will do by the time that the rest is read.
    pub async fn read(
        store: &Store,
        slurm: &Slurm,
        fleet: &Fleet,
        rollouts: &[Rollout],
    ) -> Result<Observation> {
        let mut partitions: Vec<String> =
            rollouts.iter().flat_map(|r| r.nodes.iter().map(|n| n.partition.clone())).collect();
        partitions.sort();
        partitions.dedup();
        let jobs = slurm.jobs(&partitions).await?;
        // Before the instances, so that what a finished request did is seen there.
        let requests = store.latest_requests()?.into_iter().map(|r| (r.node.clone(), r)).collect();
        let nodes = slurm.nodes().await?;
        let cloud = CloudView::read(store, fleet).await?;
        // With those that were seen just now.
        let known = store.known_instances()?;
        Ok(Observation { cloud, known, nodes, requests, jobs })
    }

    /// Of each node of a rollout.
    pub async fn nodes_of(
        &self,
        slurm: &Slurm,
        rollout: &Rollout,
    ) -> Result<BTreeMap<String, NodeObservation>> {
        let mut all = BTreeMap::new();
        let instances = self.cloud.nodes();
        for node in &rollout.nodes {
            let instance = instances.get(node.node.as_str()).copied();
            let status = instance.map(|i| &i.status);
            let job = match node.step.job() {
                Some(job) => Some(self.job(slurm, job).await?),
                None => None,
            };
            all.insert(
                node.node.clone(),
                NodeObservation {
                    doubt: self.cloud.doubt(&node.node).filter(|_| instance.is_none()),
                    image: instance.and_then(image_of).map(String::from),
                    first_seen: instance
                        .map(|i| self.known.get(&i.id).map_or(i.created, |known| known.first_seen)),
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

    async fn job(&self, slurm: &Slurm, id: u64) -> Result<JobObservation> {
        if let Some(job) = self.jobs.iter().find(|job| job.id == id) {
            return Ok(JobObservation::Known { state: job.state.clone(), reason: job.reason.clone() });
        }
        let past = slurm.past_job(id).await?;
        Ok(past.map_or(JobObservation::Gone, |state| JobObservation::Known { state, reason: String::new() }))
    }
}
