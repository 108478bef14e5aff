//! Powers nodes of elastic groups up and down, in bulk, as Slurm's hooks asked.
//!
//! Each look reads the open requests, one list of instances and one of Slurm's nodes; [`plan::decide`] says what each
//! request needs next. What takes time (creating, deleting) runs beside the loop. Ending at any point is harmless:
//! requests stay open until they are observed to be done, and nothing else is remembered.

mod answer;
mod execute;
mod pace;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln_cloud::Instance;
use kiln_slurm::{Node, Slurm};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::cloud_view;
use crate::control_loop::Look;
use crate::control_loop::tasks::Crew;
use crate::error::Result;
use crate::fleet_file::Fleet;
use crate::group_pause::pause_text;
use crate::store::{FailureRecord, NewRequest, PowerTimes, Request, RequestKind, Store, now};
use execute::Act;
use pace::Pace;
use plan::{Seen, Step, decide};

pub struct Power {
    store: Arc<Store>,
    slurm: Slurm,
    crew: Crew,
    pace: Pace,
    /// One batch of instances is asked for at a time, over all looks.
    creating: Arc<Semaphore>,
}

impl Look for Power {
    const WHAT: &'static str = "powering nodes up and down";

    async fn look(&mut self, fleet: &Arc<Fleet>) -> Result<()> {
        self.crew.reap();
        let requests = self.latest(fleet)?;
        if !self.pace.is_time(requests.iter().map(|request| request.id), Instant::now()) {
            return Ok(());
        }
        let at = now();
        let due: Vec<Request> = (requests.into_iter())
            .filter(|request| !self.crew.is_busy_with(&request.node) && request.next_try <= at)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        let view = View::read(&self.store, &self.slurm, fleet, &due).await?;
        let mut plan: Vec<(Request, Step)> = Vec::with_capacity(due.len());
        for request in due {
            let step = view.decide(&request, fleet);
            if step != Step::Wait {
                plan.push((request, step));
            }
        }
        self.execute(fleet, &view, plan);
        Ok(())
    }

    async fn end(&mut self) {
        self.crew.finish().await;
    }
}

impl Power {
    pub fn new(store: Arc<Store>, slurm: Slurm) -> Self {
        let crew = Crew::new("power request");
        Power { store, slurm, crew, pace: Pace::new(), creating: Arc::new(Semaphore::new(1)) }
    }

    /// The last open request of each node; those before it are overtaken.
    fn latest(&self, fleet: &Fleet) -> Result<Vec<Request>> {
        let mut latest: BTreeMap<String, Request> = BTreeMap::new();
        for request in self.store.power_requests()? {
            let fixed = fleet.file.nodes.contains_key(&request.node)
                && fleet.file.elastic_group(&request.node).is_none();
            if fixed {
                self.set_aside(&request)?;
                continue;
            }
            if let Some(older) = latest.insert(request.node.clone(), request) {
                self.store.log(&older.node, older.kind.word(), "a later request", "overtaken")?;
                self.store.finish(older.id)?;
            }
        }
        Ok(latest.into_values().collect())
    }

    /// Of a node that is never off. Slurm calls these hooks for it all the same: to have it rebooted, when a rebuild took longer
    /// than Slurm waits, and when an administrator powers it down by hand. Its instance is not Slurm's to delete.
    fn set_aside(&self, request: &Request) -> Result<()> {
        if request.kind == RequestKind::Resume {
            self.store.enqueue(&[NewRequest::new(RequestKind::Reboot, &request.node, request.received)])?;
        } else {
            let (node, what) = (request.node.as_str(), request.kind.word());
            tracing::warn!(node, what, "a fixed node is never powered down");
            self.store.log(
                node,
                what,
                "asked by Slurm",
                "passed over: a fixed node is never powered down",
            )?;
        }
        self.store.finish(request.id)
    }

    fn execute(&mut self, fleet: &Arc<Fleet>, view: &View, plan: Vec<(Request, Step)>) {
        let act = Act { store: self.store.clone(), slurm: self.slurm.clone(), fleet: fleet.clone() };
        let at_a_time = fleet.file.concurrency.max(1);
        let room = self.crew.room(at_a_time);
        let mut to_create: BTreeMap<String, Vec<Request>> = BTreeMap::new();
        let mut failed: BTreeMap<(String, String), Vec<Request>> = BTreeMap::new();
        let mut done: BTreeMap<&'static str, Vec<Request>> = BTreeMap::new();
        let group = |request: &Request| {
            fleet.file.nodes.get(&request.node).map(|node| node.group.clone()).unwrap_or_default()
        };
        for (request, step) in plan {
            match step {
                Step::Wait => {}
                Step::Create => to_create.entry(group(&request)).or_default().push(request),
                Step::Fail(problem) => failed.entry((group(&request), problem)).or_default().push(request),
                Step::Done(outcome) => done.entry(outcome).or_default().push(request),
                Step::Delete(ids) => self.crew.spawn(vec![request.node.clone()], {
                    let (act, room) = (act.clone(), room.clone());
                    async move { act.delete(&request, &ids, &room).await }
                }),
                Step::GiveUp(ids) => self.crew.spawn(vec![request.node.clone()], {
                    let (act, room) = (act.clone(), room.clone());
                    async move { act.give_up(&request, &ids, &room).await }
                }),
                Step::BuildAgain { id, problem } => self.crew.spawn(vec![request.node.clone()], {
                    let (act, room) = (act.clone(), room.clone());
                    async move { act.build_again(&request, &id, &problem, &room).await }
                }),
            }
        }
        for (outcome, requests) in done {
            let act = act.clone();
            let addresses = view.addresses(&requests);
            self.crew.spawn(names(&requests), async move { act.done(&requests, outcome, &addresses).await });
        }
        for ((_, problem), requests) in failed {
            let act = act.clone();
            self.crew.spawn(names(&requests), async move { act.fail(&requests, &problem).await });
        }
        // As many in one call as are made at a time: the first are known to Slurm before the last are asked for.
        for (group, requests) in to_create {
            for batch in requests.chunks(at_a_time) {
                let (act, room, batch, group) =
                    (act.clone(), self.creating.clone(), batch.to_vec(), group.clone());
                self.crew.spawn(names(&batch), async move { act.create(&group, batch, &room).await });
            }
        }
    }
}

fn names(requests: &[Request]) -> Vec<String> {
    requests.iter().map(|request| request.node.clone()).collect()
}

/// What one look saw.
struct View {
    instances: BTreeMap<String, Vec<Instance>>,
    nodes: BTreeMap<String, Node>,
    asked: BTreeMap<String, PowerTimes>,
    records: BTreeMap<String, FailureRecord>,
    /// By group: when the youngest instance was made whose node is in service.
    proven: BTreeMap<String, jiff::Timestamp>,
}

impl View {
    async fn read(store: &Store, slurm: &Slurm, fleet: &Fleet, due: &[Request]) -> Result<View> {
        let (nodes, instances) = tokio::join!(slurm.nodes(), async { cloud_view::by_node(fleet).await });
        let (nodes, instances) = (nodes?, instances?);
        Ok(View {
            proven: proven(fleet, &nodes, &instances),
            nodes,
            instances,
            asked: store.power_times(due.iter().map(|request| request.node.as_str()))?,
            records: store.failure_records()?,
        })
    }

    /// Of nodes that were to be powered up and have an instance.
    fn addresses(&self, requests: &[Request]) -> Vec<(String, String)> {
        let up = requests.iter().filter(|request| request.kind == RequestKind::Resume);
        let address = |node: &String| self.instances.get(node)?.first()?.address;
        up.filter_map(|r| Some((r.node.clone(), address(&r.node)?.to_string()))).collect()
    }

    fn decide(&self, request: &Request, fleet: &Fleet) -> Step {
        let Some(node) = fleet.file.nodes.get(&request.node) else {
            return Step::Done("not a node of this fleet");
        };
        let group = fleet.file.elastic.get(&node.group);
        let paused = self
            .records
            .get(&node.group)
            .filter(|t| t.is_paused())
            .map(|record| pause_text(&node.group, record));
        let seen = Seen {
            instances: self.instances.get(&request.node).into_iter().flatten().collect(),
            slurm: self.nodes.get(&request.node),
            asked: self.asked.get(&request.node).copied().unwrap_or_default(),
            paused,
            places: group.map_or(1, |group| group.places.len()),
            proven: self.proven.get(&node.group).copied(),
        };
        decide(request, &seen, now())
    }
}

fn proven(
    fleet: &Fleet,
    nodes: &BTreeMap<String, Node>,
    instances: &BTreeMap<String, Vec<Instance>>,
) -> BTreeMap<String, jiff::Timestamp> {
    let mut youngest = BTreeMap::new();
    for (name, node) in fleet.file.nodes.iter().filter(|(_, n)| fleet.file.elastic.contains_key(&n.group)) {
        let serves = nodes.get(name).is_some_and(|n| n.state.in_service());
        let Some(created) =
            instances.get(name).filter(|_| serves).and_then(|all| all.first()).map(|i| i.created)
        else {
            continue;
        };
        let known = youngest.entry(node.group.clone()).or_insert(created);
        *known = created.max(*known);
    }
    youngest
}
