//! What a round reads: Slurm once, the cloud once, the store.

pub mod node;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use kiln_cloud::Instance;
use kiln_slurm::{Node, Slurm};
use kiln_wire::labels;

use kiln_wire::FleetNode;

use crate::cloud_view::{CloudView, is_ours, node_of};
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::store::{CloudOperation, KnownInstance, RequestKind, Store, now};
use kiln_wire::rollout::RolloutNode;
use node::{NodeObservation, Pause, Stray};

/// How long either side may take to answer when somebody waits for it.
const SOON: Duration = Duration::from_secs(20);

/// Everything that was observed in one round.
#[derive(Debug, Default)]
pub struct Observation {
    pub nodes: Vec<NodeObservation>,
    pub strays: Vec<Stray>,
}

/// What Kiln itself knows of nodes.
struct Records {
    requests: HashMap<String, RequestKind>,
    /// Nodes that one has in work.
    rollouts: HashMap<String, i64>,
    operations: BTreeMap<String, (CloudOperation, Timestamp)>,
    known: BTreeMap<String, KnownInstance>,
    pauses: BTreeMap<String, Pause>,
    /// Why Kiln has drained nodes.
    drains: BTreeMap<String, String>,
    /// By node: the image it was taken back to, and instead of which.
    pins: HashMap<String, (String, String)>,
    bundles: Option<(BTreeMap<String, String>, Timestamp)>,
}

impl Observation {
    /// Fails if either side cannot be read, or cannot be complete. Notes which instances there are.
    pub async fn read(store: &Store, slurm: &Slurm, fleet: &Fleet, share: &Path) -> Result<Observation> {
        let (nodes, cloud) = tokio::try_join!(slurm_side(slurm), CloudView::read(store, fleet))?;
        Observation::of(store, fleet, share, nodes, cloud).await
    }

    async fn of(
        store: &Store,
        fleet: &Fleet,
        share: &Path,
        nodes: BTreeMap<String, Node>,
        cloud: CloudView,
    ) -> Result<Observation> {
        // Last: a hook that came meanwhile has left its request.
        let records = Records::read(store, share)?;
        Ok(assemble(fleet, nodes, cloud, &records).resolved().await)
    }

    /// Slurm's addresses are mostly names; which instance is meant only matters where there are several.
    async fn resolved(mut self) -> Observation {
        for node in self.nodes.iter_mut().filter(|n| n.reached_at.is_none() && n.live().count() > 1) {
            let Some(name) = node.slurm.as_ref().and_then(|n| n.address.clone()) else { continue };
            let found = tokio::net::lookup_host((name, 0)).await;
            node.reached_at = found.ok().and_then(|mut all| all.next()).map(|found| found.ip());
        }
        self
    }
}

/// What can be read at present, for people: one side is better than none, but nothing is done about it.
pub struct PartialObservation {
    pub observation: Observation,
    /// Why Slurm's half is missing.
    pub slurm_problem: Option<String>,
    /// Why the cloud's half is missing.
    pub cloud_problem: Option<String>,
}

impl PartialObservation {
    pub async fn read(
        store: &Store,
        slurm: &Slurm,
        fleet: &Fleet,
        share: &Path,
    ) -> Result<PartialObservation> {
        let (nodes, cloud) = tokio::join!(soon(slurm_side(slurm)), soon(CloudView::look(store, fleet)));
        let (nodes, slurm_problem) = half(nodes);
        let (cloud, cloud_problem) = half(cloud);
        let observation = Observation::of(store, fleet, share, nodes, cloud).await?;
        Ok(PartialObservation { observation, slurm_problem, cloud_problem })
    }

    pub fn is_whole(&self) -> bool {
        self.slurm_problem.is_none() && self.cloud_problem.is_none()
    }
}

/// People wait for it.
async fn soon<T>(side: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::Refused(format!("no answer within {} s", SOON.as_secs()));
    tokio::time::timeout(SOON, side).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

fn half<T: Default>(side: Result<T>) -> (T, Option<String>) {
    match side {
        Ok(seen) => (seen, None),
        Err(error) => (T::default(), Some(error.chain())),
    }
}

async fn slurm_side(slurm: &Slurm) -> Result<BTreeMap<String, Node>> {
    let nodes = slurm.nodes().await?;
    if nodes.is_empty() {
        return Err(Error::Refused("Slurm shows no nodes at all".into()));
    }
    Ok(nodes)
}

impl Records {
    fn read(store: &Store, share: &Path) -> Result<Records> {
        let open = store.open_rollouts()?.into_iter();
        let in_work = open.flat_map(|r| {
            let id = r.id;
            r.nodes.into_iter().filter(RolloutNode::is_in_work).map(move |n| (n.node, id))
        });
        let pauses = store.failure_records()?.into_iter().filter(|(_, t)| t.is_paused());
        Ok(Records {
            rollouts: in_work.collect(),
            requests: store.open_requests()?.into_iter().map(|r| (r.node, r.kind)).collect(),
            operations: store.cloud_operations()?,
            known: store.known_instances()?,
            pauses: pauses
                .filter_map(|(group, t)| Some((group, Pause { until: t.paused_until?, problem: t.problem })))
                .collect(),
            drains: store.drains()?,
            pins: store.pins()?,
            bundles: kiln_wire::bundles(share),
        })
    }
}

fn assemble(
    fleet: &Fleet,
    mut slurm: BTreeMap<String, Node>,
    mut cloud: CloudView,
    records: &Records,
) -> Observation {
    let mut by_node: HashMap<String, Vec<Instance>> = HashMap::new();
    let mut strays = Vec::new();
    let first_seen =
        |i: &Instance| records.known.get(&i.id).map_or_else(now, |known: &KnownInstance| known.first_seen);
    for instance in cloud.instances.into_iter().filter(|i| is_ours(i, &fleet.file)) {
        let node = instance.labels.get(labels::NODE).filter(|name| fleet.file.nodes.contains_key(*name));
        if let Some(name) = node {
            by_node.entry(name.clone()).or_default().push(instance);
        } else {
            let is_newer_than_fleet = fleet.written.is_none_or(|written| first_seen(&instance) > written);
            let is_known_to_slurm = slurm.contains_key(node_of(&instance));
            strays.push(Stray { instance, is_newer_than_fleet, is_known_to_slurm });
        }
    }
    // Nodes are given the time to apply them, and to say so.
    let grace = Duration::from_secs(fleet.file.timing.grace);
    let bundles = records.bundles.as_ref().filter(|(_, at)| *at + grace <= now());
    let nodes = fleet.file.nodes.iter().map(|(name, node)| {
        let group = fleet.file.elastic.get(&node.group);
        let slurm = slurm.remove(name);
        let instances = by_node.remove(name).unwrap_or_default();
        NodeObservation {
            elastic: group.is_some(),
            always_up: group.is_some_and(|g| g.always_up.contains(name)),
            reached_at: reached_at(node, slurm.as_ref()),
            image: target(name, node, records),
            is_published: records.bundles.as_ref().is_some_and(|(all, _)| all.contains_key(name)),
            bundle: bundles.and_then(|(all, at)| Some((all.get(name)?.clone(), *at))),
            request: records.requests.get(name).copied(),
            rollout: records.rollouts.get(name).copied(),
            operation: records.operations.get(name).copied(),
            pause: records.pauses.get(&node.group).cloned(),
            drained_for: records.drains.get(name).cloned(),
            first_seen: instances.iter().map(|i| (i.id.clone(), first_seen(i))).collect(),
            unlisted: cloud.unlisted.remove(name),
            instances,
            group: node.group.clone(),
            node: name.clone(),
            slurm,
        }
    });
    Observation { nodes: nodes.collect(), strays }
}

fn reached_at(node: &FleetNode, slurm: Option<&Node>) -> Option<IpAddr> {
    let told = slurm.and_then(|n| n.address.as_ref()).and_then(|address| address.parse().ok());
    told.or(node.address)
}

/// The fleet's, unless a rollout took the node back from exactly that one.
fn target(name: &str, node: &FleetNode, records: &Records) -> Option<String> {
    let wanted = node.image.clone()?;
    let pinned = records.pins.get(name).filter(|(_, instead_of)| *instead_of == wanted);
    Some(pinned.map_or(wanted, |(image, _)| image.clone()))
}
