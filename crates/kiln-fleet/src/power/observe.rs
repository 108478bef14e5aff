//! What a round reads: Slurm once, the cloud once, the store.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kiln_cloud::Instance;
use kiln_slurm::{Node, Slurm};

use super::plan::{Action, plan};
use crate::cloud_view::CloudView;
use crate::error::Result;
use crate::fleet::Fleet;
use crate::group_pause::pause_text;
use crate::store::{KnownInstance, PowerTimes, Request, RequestKind, Store, now};
use kiln_wire::health::FailureRecord;

/// How long after Slurm kilnd may hear of a new node.
const FLEET_FILE_LAG: SignedDuration = SignedDuration::from_secs(60);

/// Everything that was observed in one round.
pub struct Observation {
    instances: BTreeMap<String, Vec<Instance>>,
    /// Nodes of which nobody can say whether they have an instance.
    in_doubt: BTreeSet<String>,
    known: BTreeMap<String, KnownInstance>,
    nodes: BTreeMap<String, Node>,
    asked: BTreeMap<String, PowerTimes>,
    records: BTreeMap<String, FailureRecord>,
    /// By group: when the youngest instance was first seen whose node is in service.
    proven: BTreeMap<String, Timestamp>,
}

impl Observation {
    /// Notes which instances there are.
    pub async fn read(store: &Store, slurm: &Slurm, fleet: &Fleet, due: &[Request]) -> Result<Observation> {
        let (nodes, view) = tokio::join!(slurm.nodes(), CloudView::read(store, fleet));
        let (nodes, view) = (nodes?, view?);
        let instances = view.by_compute_node(&fleet.file);
        let known = store.known_instances()?;
        Ok(Observation {
            proven: proven(fleet, &nodes, &instances, &known),
            known,
            nodes,
            in_doubt: view.unlisted.keys().filter(|node| view.doubt(node).is_some()).cloned().collect(),
            instances,
            asked: store.power_times(due.iter().map(|request| request.node.as_str()))?,
            records: store.failure_records()?,
        })
    }

    /// The addresses of nodes that were to be powered up and have an instance.
    pub fn addresses(&self, requests: &[Request]) -> Vec<(String, String)> {
        let up = requests.iter().filter(|request| request.kind == RequestKind::Resume);
        let address = |node: &String| self.instances.get(node)?.first()?.address;
        up.filter_map(|r| Some((r.node.clone(), address(&r.node)?.to_string()))).collect()
    }

    pub fn plan(&self, request: &Request, fleet: &Fleet) -> Action {
        let Some(node) = fleet.file.nodes.get(&request.node) else {
            // `kiln configure` tells Slurm of new nodes a moment before it tells kilnd.
            let young = now().duration_since(request.received) < FLEET_FILE_LAG;
            return if young { Action::Wait } else { Action::Done("not a node of this fleet") };
        };
        let group = fleet.file.elastic.get(&node.group);
        let paused = self
            .records
            .get(&node.group)
            .filter(|t| t.is_paused())
            .map(|record| pause_text(&node.group, record));
        let resume_timeout = i64::try_from(fleet.file.resume_timeout).unwrap_or(i64::MAX);
        let resume_timeout = SignedDuration::from_secs(resume_timeout);
        let seen = NodeObservation {
            instances: self.instances.get(&request.node).into_iter().flatten().collect(),
            is_in_doubt: self.in_doubt.contains(&request.node),
            known: &self.known,
            slurm: self.nodes.get(&request.node),
            asked: self.asked.get(&request.node).copied().unwrap_or_default(),
            paused,
            places: group.map_or(1, |group| group.launch_options.len()),
            time_to_boot: resume_timeout / 2,
            proven: self.proven.get(&node.group).copied(),
        };
        plan(request, &seen, now())
    }
}

/// What was observed of one request's node.
pub struct NodeObservation<'a> {
    /// All of this node.
    pub instances: Vec<&'a Instance>,
    /// It had one that the cloud's list lacks, and the cloud does not say whether that is gone.
    pub is_in_doubt: bool,
    /// All instances that are known, by id.
    pub known: &'a BTreeMap<String, KnownInstance>,
    pub slurm: Option<&'a Node>,
    pub asked: PowerTimes,
    /// Why the node's group is paused, if it is.
    pub paused: Option<String>,
    /// How many places (flavor and zone) the group may use.
    pub places: usize,
    /// An instance that is younger may still come up.
    pub time_to_boot: SignedDuration,
    /// When the youngest instance of the group was first seen whose node is in service.
    pub proven: Option<Timestamp>,
}

impl NodeObservation<'_> {
    /// By this host's clock, as are the times of requests; the cloud's own may be another.
    pub fn first_seen(&self, instance: &Instance) -> Timestamp {
        self.known.get(&instance.id).map_or(instance.created, |known| known.first_seen)
    }
}

fn proven(
    fleet: &Fleet,
    nodes: &BTreeMap<String, Node>,
    instances: &BTreeMap<String, Vec<Instance>>,
    known: &BTreeMap<String, KnownInstance>,
) -> BTreeMap<String, Timestamp> {
    let mut youngest = BTreeMap::new();
    for (name, node) in fleet.file.nodes.iter().filter(|(_, n)| fleet.file.elastic.contains_key(&n.group)) {
        let serves = nodes.get(name).is_some_and(|n| n.state.in_service());
        let instance = instances.get(name).filter(|_| serves).and_then(|all| all.first());
        let Some(known) = instance.and_then(|i| known.get(&i.id)) else { continue };
        let latest = youngest.entry(node.group.clone()).or_insert(known.first_seen);
        *latest = known.first_seen.max(*latest);
    }
    youngest
}
