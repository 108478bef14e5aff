//! Powers nodes of elastic groups up and down, in bulk, as Slurm's hooks asked.
//!
//! Each round reads the open requests, one list of instances and one of Slurm's nodes; [`plan`] says what each request
//! needs next. Creating and deleting outlast the round. Stopping at any point is harmless: requests stay open until they
//! are observed to be done, and nothing else is remembered.

mod execute;
mod observe;
mod pace;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_slurm::Slurm;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::control_loop::Controller;
use crate::control_loop::tasks::Tasks;
use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::{NewRequest, Request, RequestKind, Store, now};
use execute::Executor;
use observe::Observation;
use pace::Pace;
use plan::Action;

pub struct Power {
    store: Arc<Store>,
    slurm: Slurm,
    every: Duration,
    tasks: Tasks,
    pace: Pace,
    /// One batch of instances is asked for at a time, over all rounds.
    creating: Arc<Semaphore>,
}

impl Controller for Power {
    const NAME: &'static str = "powering nodes up and down";

    async fn round(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        self.tasks.collect_ended();
        let requests = self.latest(fleet)?;
        if !self.pace.is_time(requests.iter().map(|request| request.id), Instant::now()) {
            return Ok(());
        }
        let at = now();
        let due: Vec<Request> = (requests.into_iter())
            .filter(|request| !self.tasks.is_busy_with(&request.node) && request.next_try <= at)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        let observation = Observation::read(&self.store, &self.slurm, fleet, &due).await?;
        let plan: Vec<(Request, Action)> = (due.into_iter())
            .map(|request| {
                let action = observation.plan(&request, fleet);
                (request, action)
            })
            .collect();
        self.execute(fleet, &observation, plan);
        Ok(())
    }

    async fn wait(&mut self, _: Option<&Fleet>) {
        tokio::time::sleep(self.every).await;
    }

    async fn finish(&mut self) {
        self.tasks.finish().await;
    }
}

impl Power {
    pub fn new(store: Arc<Store>, slurm: Slurm, every: Duration) -> Self {
        let tasks = Tasks::new("power request");
        Power { store, slurm, every, tasks, pace: Pace::new(), creating: Arc::new(Semaphore::new(1)) }
    }

    /// The last open request of each node. Those before it are closed: they are superseded.
    fn latest(&self, fleet: &Fleet) -> Result<Vec<Request>> {
        let mut latest: BTreeMap<String, Request> = BTreeMap::new();
        for request in self.store.power_requests()? {
            let fixed = fleet.file.nodes.contains_key(&request.node)
                && fleet.file.elastic_group(&request.node).is_none();
            if fixed {
                self.answer_for_fixed_node(&request)?;
                continue;
            }
            if let Some(older) = latest.insert(request.node.clone(), request) {
                self.store.log(&older.node, older.kind.word(), "a later request", "superseded")?;
                self.store.finish(older.id)?;
            }
        }
        Ok(latest.into_values().collect())
    }

    /// Slurm calls these hooks for fixed nodes too: to have one rebooted, when a rebuild took longer than Slurm waits, and when
    /// an administrator powers it down by hand. The instance of a fixed node is never deleted for that.
    fn answer_for_fixed_node(&self, request: &Request) -> Result<()> {
        if request.kind == RequestKind::Resume {
            self.store.enqueue(&[NewRequest::new(RequestKind::Reboot, &request.node, request.received)])?;
        } else {
            let (node, what) = (request.node.as_str(), request.kind.word());
            tracing::warn!(node, what, "a fixed node is never powered down");
            self.store.log(node, what, "asked by Slurm", "skipped: a fixed node is never powered down")?;
        }
        self.store.finish(request.id)
    }

    fn execute(&mut self, fleet: &Arc<Fleet>, observation: &Observation, plan: Vec<(Request, Action)>) {
        let executor =
            Executor { store: self.store.clone(), slurm: self.slurm.clone(), fleet: fleet.clone() };
        let at_a_time = fleet.file.concurrency.max(1);
        let limit = self.tasks.limit(at_a_time);
        let mut to_create: BTreeMap<String, Vec<Request>> = BTreeMap::new();
        let mut failed: BTreeMap<(String, String), Vec<Request>> = BTreeMap::new();
        let mut refused: BTreeMap<String, (String, Vec<Request>)> = BTreeMap::new();
        let mut done: BTreeMap<&'static str, Vec<Request>> = BTreeMap::new();
        let group = |request: &Request| {
            fleet.file.nodes.get(&request.node).map(|node| node.group.clone()).unwrap_or_default()
        };
        for (request, action) in plan {
            match action {
                Action::Wait => {}
                Action::Create => to_create.entry(group(&request)).or_default().push(request),
                Action::Fail(problem) => failed.entry((group(&request), problem)).or_default().push(request),
                Action::Refuse(problem) => {
                    refused.entry(group(&request)).or_insert((problem, Vec::new())).1.push(request);
                }
                Action::PowerDown => self.tasks.spawn(vec![request.node.clone()], {
                    let executor = executor.clone();
                    async move { executor.power_down(&request).await }
                }),
                Action::Done(outcome) => done.entry(outcome).or_default().push(request),
                Action::Delete(ids) => self.tasks.spawn(vec![request.node.clone()], {
                    let (executor, limit) = (executor.clone(), limit.clone());
                    async move { executor.delete(&request, &ids, &limit).await }
                }),
                Action::GiveUp(ids) => self.tasks.spawn(vec![request.node.clone()], {
                    let (executor, limit) = (executor.clone(), limit.clone());
                    async move { executor.give_up(&request, &ids, &limit).await }
                }),
                Action::BuildAgain { id, problem } => self.tasks.spawn(vec![request.node.clone()], {
                    let (executor, limit) = (executor.clone(), limit.clone());
                    async move { executor.build_again(&request, &id, &problem, &limit).await }
                }),
            }
        }
        for (outcome, requests) in done {
            let executor = executor.clone();
            let addresses = observation.addresses(&requests);
            self.tasks
                .spawn(names(&requests), async move { executor.done(&requests, outcome, &addresses).await });
        }
        let failed = failed.into_iter().map(|((_, problem), requests)| (problem, requests));
        for (problem, requests) in failed.chain(refused.into_values()) {
            let executor = executor.clone();
            self.tasks.spawn(names(&requests), async move { executor.refuse(&requests, &problem).await });
        }
        // As many in one call as are created at a time: Slurm is told of the first before the last are asked for.
        for (group, requests) in to_create {
            for batch in requests.chunks(at_a_time) {
                let (executor, limit, batch, group) =
                    (executor.clone(), self.creating.clone(), batch.to_vec(), group.clone());
                self.tasks.spawn(names(&batch), async move { executor.create(&group, batch, &limit).await });
            }
        }
    }
}

fn names(requests: &[Request]) -> Vec<String> {
    requests.iter().map(|request| request.node.clone()).collect()
}
