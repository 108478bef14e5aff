//! Carries out what was planned for requests to power nodes up and down.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kiln_cloud::{Instance, Labels, NewInstance};
use kiln_slurm::{REASON, Slurm};
use kiln_wire::labels;
use tokio::sync::{Semaphore, TryAcquireError};

use super::plan::left_alone;
use crate::cloud_view::{self, node_of};
use crate::control_loop::retry::{self, Failure};
use crate::error::{Error, Result, chain};
use crate::fleet::Fleet;
use crate::group_pause;
use crate::store::{CloudOperation, NewRequest, Request, RequestKind, RequestState, Store, now};
use kiln_wire::{FleetNode, InstanceDefaults, LaunchOption};

/// Between two attempts, which go on for as long as Slurm waits for the node.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Why a group is paused whose nodes boot and do not join.
const NEVER_CAME: &str = "its nodes do not come up in time";

#[derive(Clone)]
pub struct Executor {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    pub fleet: Arc<Fleet>,
}

impl Executor {
    /// Slurm is told the addresses once more: it may have been away when the instances were created.
    pub async fn done(
        &self,
        requests: &[Request],
        outcome: &str,
        addresses: &[(String, String)],
    ) -> Result<()> {
        self.slurm.tell_addresses(addresses).await?;
        for request in requests {
            tracing::info!(node = request.node, kind = request.kind.word(), outcome, "power request done");
            self.log(request, outcome)?;
            self.store.finish(request.id)?;
        }
        Ok(())
    }

    /// Deletes an instance that came too late. The failure is counted for its group, once.
    pub async fn give_up(&self, request: &Request, ids: &[String], limit: &Semaphore) -> Result<()> {
        self.store.begin(request.id, CloudOperation::Delete)?;
        group_pause::count(&self.store, &self.fleet.file, self.group(request), 1, NEVER_CAME)?;
        self.delete(request, ids, limit).await
    }

    pub async fn delete(&self, request: &Request, ids: &[String], limit: &Semaphore) -> Result<()> {
        let mut permit = limit.try_acquire();
        if permit.is_err() {
            // The semaphore is never closed.
            permit = limit.acquire().await.map_err(|_| TryAcquireError::Closed);
            if self.is_left_alone(request).await? {
                // The next round plans from the node as it is now.
                return Ok(());
            }
        }
        let _permit = permit;
        self.store.begin(request.id, CloudOperation::Delete)?;
        for id in ids {
            if let Err(error) = cloud_view::delete(&self.store, &self.fleet, id).await {
                return self.later(request, None, &error.chain());
            }
        }
        Ok(())
    }

    async fn is_left_alone(&self, request: &Request) -> Result<bool> {
        let node = self.slurm.node(&request.node).await?;
        Ok(request.kind != RequestKind::Resume && node.as_ref().and_then(left_alone).is_some())
    }

    /// Deletes an instance that the cloud accepted and then failed to build; the next round creates another.
    pub async fn build_again(
        &self,
        request: &Request,
        id: &str,
        problem: &str,
        limit: &Semaphore,
    ) -> Result<()> {
        let _permit = limit.acquire().await;
        self.store.log(&request.node, "build", problem, "once more")?;
        match cloud_view::delete(&self.store, &self.fleet, id).await {
            Ok(()) => Ok(()),
            Err(error) => self.later(request, None, &error.chain()),
        }
    }

    /// One call for a whole batch; nodes that the cloud has no room for are tried with the group's next launch option.
    pub async fn create(&self, group: &str, requests: Vec<Request>, limit: &Semaphore) -> Result<()> {
        let _permit = limit.acquire().await;
        // Later requests may have come while this batch waited for its turn.
        let requests = self.still_wanted(requests)?;
        if let Some(record) = self.store.failure_records()?.get(group).filter(|record| record.is_paused()) {
            return self.refuse(&requests, &group_pause::pause_text(group, record)).await;
        }
        let options =
            self.fleet.file.elastic.get(group).map(|g| g.launch_options.clone()).unwrap_or_default();
        let Some(defaults) = self.fleet.file.instance_defaults.clone() else {
            let problem = "the fleet file does not say where to create instances";
            return self.fail(&requests, problem).await.map(drop);
        };
        let mut waiting = requests;
        for request in &waiting {
            self.store.begin(request.id, CloudOperation::Create)?;
        }
        let mut no_room = String::from("the group has no launch options");
        // After a build that failed with one option, the next one comes first.
        let first = waiting.iter().map(|r| r.attempts as usize).min().unwrap_or(0);
        for turn in 0..options.len() {
            if waiting.is_empty() {
                return Ok(());
            }
            let place = (first + turn) % options.len();
            let option = &options[place];
            let mut refused = Vec::new();
            let mut created = Vec::new();
            let answers = self.ask(&waiting, place, option, &defaults).await?;
            for (request, answer) in waiting.into_iter().zip(answers) {
                match answer {
                    Ok(instance) => {
                        tracing::info!(
                            node = request.node,
                            instance = instance.id,
                            flavor = option.flavor,
                            zone = option.zone,
                            "created"
                        );
                        self.store.count_build(request.id)?;
                        created.push(instance);
                    }
                    Err(error) => match Failure::from(&error) {
                        Failure::NoRoom(problem) => {
                            no_room = problem;
                            refused.push(request);
                        }
                        Failure::Temporary { wait, problem } => self.later(&request, wait, &problem)?,
                        Failure::Final(problem) => drop(self.fail(&[request], &problem).await?),
                    },
                }
            }
            self.store.note_instances(created.iter().map(|i| (node_of(i), i)))?;
            self.tell_addresses(&created).await;
            waiting = refused;
        }
        if waiting.is_empty() {
            return Ok(());
        }
        group_pause::pause(&self.store, &self.fleet.file, group, &no_room)?;
        self.refuse(&waiting, &no_room).await
    }

    /// Gives requests up that the cloud has no room for at present, or whose instances it cannot build. Jobs that want their nodes cannot start: what was, or is
    /// about to be, created for them alone is taken back, and does not wait for nothing.
    pub async fn refuse(&self, requests: &[Request], problem: &str) -> Result<()> {
        if !self.fail(requests, problem).await? {
            return Ok(());
        }
        let asked_since = requests.iter().map(|r| r.received).min();
        let (Some(asked_since), lost) = (asked_since, jobs_of(requests)) else { return Ok(()) };
        // Slurm powers up the nodes of a large job over some time.
        let asked_since = asked_since - Duration::from_secs(self.fleet.file.resume_timeout);
        let in_vain: Vec<NewRequest> = (self.store.latest_requests()?.iter())
            .filter(|r| r.kind == RequestKind::Resume && r.received >= asked_since)
            .filter(|r| {
                !matches!(r.state, RequestState::Failed) && !requests.iter().any(|own| own.id == r.id)
            })
            // What has not been asked of the cloud yet is refused in its turn, while the group is paused. To supersede it would
            // leave a node that Slurm gives to another job without anybody to create its instance.
            .filter(|r| r.operation.is_some())
            .filter(|r| r.jobs.is_some() && jobs_of([*r]).is_subset(&lost))
            .map(|r| NewRequest {
                jobs: r.jobs.clone(),
                ..NewRequest::new(RequestKind::TakeBack, &r.node, now())
            })
            .collect();
        self.store.enqueue(&in_vain).map(drop)
    }

    /// Drained first, so that no job comes in between.
    pub async fn power_down(&self, request: &Request) -> Result<()> {
        let node = request.node.as_str();
        let why = format!(
            "{REASON}the cloud has no room for all nodes of job {}",
            request.jobs.as_deref().unwrap_or("?")
        );
        self.slurm.power_down_asap(node, &why).await?;
        let is_free = self.slurm.node(node).await?.is_none_or(|n| !n.carries_jobs());
        if is_free {
            self.slurm.power_down_force(node).await?;
        }
        let outcome = if is_free { "powered down" } else { "powered down when its job is over" };
        tracing::info!(node, why, outcome, "taken back");
        self.store.log(node, request.kind.word(), why.trim_start_matches(REASON), outcome)?;
        self.store.finish(request.id)
    }

    /// Those that no later request of their node has superseded.
    fn still_wanted(&self, mut requests: Vec<Request>) -> Result<Vec<Request>> {
        let open = self.store.power_requests()?;
        let newest: HashMap<&str, i64> = open.iter().map(|r| (r.node.as_str(), r.id)).collect();
        requests.retain(|request| newest.get(request.node.as_str()) == Some(&request.id));
        Ok(requests)
    }

    async fn ask(
        &self,
        requests: &[Request],
        place: usize,
        option: &LaunchOption,
        defaults: &InstanceDefaults,
    ) -> Result<Vec<kiln_cloud::Result<Instance>>> {
        let mut new = Vec::with_capacity(requests.len());
        for request in requests {
            let Some(node) = self.fleet.file.nodes.get(&request.node) else {
                return Err(Error::StoreContent(format!("{} is not a node of this fleet", request.node)));
            };
            let image = self.store.target(&request.node, node.image.as_deref())?;
            let wanted = self.new_instance(&request.node, node, image.unwrap_or_default(), option, defaults);
            // In another place it is another launch.
            let launch = format!("{}-{place}", self.store.launch(request.id)?);
            new.push(NewInstance { request: Some(launch), ..wanted });
        }
        tracing::info!(instances = new.len(), flavor = option.flavor, zone = option.zone, "asking the cloud");
        Ok(self.fleet.cloud.create(new).await)
    }

    fn new_instance(
        &self,
        name: &str,
        node: &FleetNode,
        image: String,
        option: &LaunchOption,
        defaults: &InstanceDefaults,
    ) -> NewInstance {
        let mut labels = Labels::from([
            (labels::CLUSTER.to_string(), self.fleet.file.cluster.clone()),
            (labels::NODE.to_string(), name.to_string()),
            (labels::ROLE.to_string(), "compute".to_string()),
            (labels::GROUP.to_string(), format!("compute.{}", node.group)),
            (labels::TARGET_IMAGE.to_string(), image.clone()),
            (labels::IMAGE.to_string(), image.clone()),
        ]);
        let id = self.fleet.file.cluster_id.clone();
        labels.extend(id.map(|id| (labels::ID.to_string(), id)));
        NewInstance {
            name: name.to_string(),
            image,
            flavor: option.flavor.clone(),
            zone: option.zone.clone(),
            public: false,
            network: defaults.network.clone(),
            address: node.address,
            security_groups: defaults.security_groups.clone(),
            user_data: node.user_data.clone(),
            ssh_key: node.ssh_key.clone(),
            labels,
            volumes: defaults.volumes.clone(),
            disk_gib: None,
            request: None,
        }
    }

    /// Tells Slurm the addresses that are known already. It is told again when the instances are there.
    async fn tell_addresses(&self, instances: &[Instance]) {
        let known: Vec<(String, String)> =
            instances.iter().filter_map(|i| Some((i.name.clone(), i.address?.to_string()))).collect();
        if let Err(error) = self.slurm.tell_addresses(&known).await {
            tracing::warn!(error = chain(&error), "cannot tell Slurm the addresses");
        }
    }

    /// Gives requests of one group up: Slurm is told that the nodes are down, and runs their jobs elsewhere without waiting.
    /// `false`: Slurm could not be told.
    pub async fn fail(&self, requests: &[Request], problem: &str) -> Result<bool> {
        let Some(first) = requests.first() else { return Ok(true) };
        let nodes: Vec<&str> = requests.iter().map(|request| request.node.as_str()).collect();
        tracing::error!(?nodes, problem, "cannot power up");
        if let Err(error) = self.slurm.down(&nodes, &format!("{REASON}{problem}")).await {
            // Slurm does not know yet: tried again, so that no job waits for a node that will not come.
            for request in requests {
                self.later(request, None, &chain(&error))?;
            }
            return Ok(false);
        }
        for request in requests {
            self.log(request, &format!("failed: {problem}"))?;
            self.store.fail(request.id, problem)?;
        }
        group_pause::count(&self.store, &self.fleet.file, self.group(first), requests.len(), problem)?;
        Ok(true)
    }

    fn group(&self, request: &Request) -> &str {
        self.fleet.file.nodes.get(&request.node).map_or("", |node| node.group.as_str())
    }

    fn later(&self, request: &Request, wait: Option<Duration>, problem: &str) -> Result<()> {
        let age = now().duration_since(request.received).unsigned_abs();
        let wait = retry::delay(backoff(age), wait);
        // The same problem is logged once.
        if request.error.as_deref() != Some(problem) {
            tracing::warn!(node = request.node, problem, ?wait, "power request postponed");
            self.store.log(&request.node, request.kind.word(), problem, "postponed")?;
        }
        self.store.postpone(request.id, wait, problem)
    }

    fn log(&self, request: &Request, outcome: &str) -> Result<()> {
        let why = match &request.jobs {
            Some(jobs) => format!("asked by Slurm for job {jobs}"),
            None => "asked by Slurm".to_string(),
        };
        self.store.log(&request.node, request.kind.word(), &why, outcome)
    }
}

/// Those that wait for the nodes of these requests.
fn jobs_of<'r>(requests: impl IntoIterator<Item = &'r Request>) -> BTreeSet<&'r str> {
    requests.into_iter().filter_map(|r| r.jobs.as_deref()).flat_map(|jobs| jobs.split(',')).collect()
}

/// The older the request, the longer until the next attempt.
fn backoff(age: Duration) -> Duration {
    (age / 4).clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_the_age_of_the_request() {
        assert_eq!([0, 40, 9999].map(|age| backoff(Duration::from_secs(age)).as_secs()), [1, 10, 30]);
    }
}
