//! How the fleet is, for people: what Slurm and the cloud say now, with the ages that kilnd has seen.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fleet_file::Fleet;
use crate::reconcile::{Observation, Verdict, look_only};
use crate::slurm::Slurm;
use crate::store::{Event, FailureRecord, Request, Store, now};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetHealth {
    pub observed: Timestamp,
    /// Why Slurm could not be asked, if it could not. There are no findings then.
    pub slurm_problem: Option<String>,
    /// Why the cloud could not be asked, if it could not. There are no findings then.
    pub cloud_problem: Option<String>,
    /// When kilnd last looked; `None` if it never did.
    pub last_look: Option<Timestamp>,
    /// Seconds between two of its looks.
    pub every: u64,
    /// Elastic groups that the cloud refused something.
    #[serde(rename = "troubles")]
    pub failing_groups: Vec<GroupFailures>,
    pub nodes: Vec<NodeHealth>,
    /// Instances that are no node's.
    pub strays: Vec<FindingReport>,
}

impl FleetHealth {
    /// kilnd has missed several looks.
    pub fn is_unattended(&self) -> bool {
        let patience = std::time::Duration::from_secs(3 * self.every + 30);
        self.last_look.is_none_or(|at| at + patience < self.observed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFailures {
    pub group: String,
    pub is_paused: bool,
    #[serde(flatten)]
    pub record: FailureRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHealth {
    pub node: String,
    pub group: String,
    pub elastic: bool,
    /// All flags; `None`: unknown to Slurm.
    pub slurm: Option<String>,
    pub reason: Option<String>,
    pub reason_by: Option<String>,
    pub booted: Option<Timestamp>,
    pub carries_jobs: bool,
    /// In service, or off because it is not needed.
    pub in_order: bool,
    pub instances: Vec<InstanceReport>,
    /// Why Kiln leaves the node alone at present, whatever it looks like.
    pub left_alone: Option<String>,
    pub finding: Option<FindingReport>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    pub id: String,
    pub status: String,
    pub address: Option<String>,
    pub image: Option<String>,
    pub created: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingReport {
    pub subject: String,
    /// Of the table in the documentation.
    pub rule: String,
    pub text: String,
    pub since: Timestamp,
    /// Nothing may be wrong yet: it is still within the time that a boot may take.
    pub is_early: bool,
    /// When Kiln does something about it; `None` where a person has to.
    pub due: Option<Timestamp>,
    /// What Kiln does, in order.
    pub actions: Vec<String>,
}

/// Everything there is to know of one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeDossier {
    pub observed: Timestamp,
    /// As in [`FleetHealth`].
    pub slurm_problem: Option<String>,
    pub cloud_problem: Option<String>,
    pub health: NodeHealth,
    /// The end of its instances' consoles, by instance.
    pub consoles: Vec<Console>,
    /// Open ones.
    pub requests: Vec<Request>,
    /// Oldest first.
    pub events: Vec<Event>,
    pub last_look: Option<Timestamp>,
    #[serde(rename = "trouble")]
    pub group_failures: Option<GroupFailures>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Console {
    pub instance: String,
    pub lines: Vec<String>,
}

const CONSOLE_LINES: usize = 15;
const EVENTS: u32 = 10;

/// Where the observer finds things.
pub struct Sources<'a> {
    pub store: &'a Store,
    pub slurm: &'a Slurm,
    pub fleet: &'a Fleet,
    pub share: &'a Path,
}

impl Sources<'_> {
    pub async fn health(&self) -> Result<FleetHealth> {
        let (glimpse, verdicts) = look_only(self.store, self.slurm, self.fleet, self.share).await?;
        let mut findings: std::collections::HashMap<String, FindingReport> =
            verdicts.into_iter().map(|v| (v.subject.clone(), FindingReport::from(v))).collect();
        let nodes = glimpse.world.nodes.iter();
        let nodes = nodes.map(|o| NodeHealth::new(o, findings.remove(&o.node))).collect();
        let mut strays: Vec<FindingReport> = findings.into_values().collect();
        strays.sort_by(|a, b| a.subject.cmp(&b.subject));
        Ok(FleetHealth {
            observed: now(),
            slurm_problem: glimpse.slurm_problem,
            cloud_problem: glimpse.cloud_problem,
            last_look: self.store.last_look()?.map(|(time, _)| time),
            every: self.fleet.file.patience.reconcile,
            failing_groups: self.failing_groups()?,
            nodes,
            strays,
        })
    }

    pub async fn dossier(&self, node: &str) -> Result<NodeDossier> {
        let health = self.health().await?;
        let (observed, last_look) = (health.observed, health.last_look);
        let found = health.nodes.into_iter().find(|n| n.node == node);
        let found = found.ok_or_else(|| Error::Refused(format!("{node} is no compute node of the fleet")))?;
        let mut consoles = Vec::new();
        for instance in &found.instances {
            // A cloud that has no console to show is no reason to say nothing.
            let text = self.fleet.cloud.console_log(&instance.id, CONSOLE_LINES).await;
            let text = text.unwrap_or_else(|error| format!("(cannot be read: {error})"));
            consoles.push(Console {
                instance: instance.id.clone(),
                lines: text.lines().map(String::from).collect(),
            });
        }
        Ok(NodeDossier {
            observed,
            slurm_problem: health.slurm_problem,
            cloud_problem: health.cloud_problem,
            last_look,
            group_failures: health.failing_groups.into_iter().find(|t| t.group == found.group),
            health: found,
            consoles,
            requests: self.store.open_requests()?.into_iter().filter(|r| r.node == node).collect(),
            events: self.store.events(Some(node), EVENTS)?,
        })
    }

    fn failing_groups(&self) -> Result<Vec<GroupFailures>> {
        let records = self.store.failure_records()?.into_iter();
        Ok(records
            .map(|(group, record)| GroupFailures { group, is_paused: record.is_paused(), record })
            .collect())
    }
}

impl NodeHealth {
    fn new(o: &Observation, finding: Option<FindingReport>) -> Self {
        let state = o.state();
        let off = o.elastic && o.is_off() && !o.is_down() && !o.has("DRAIN");
        NodeHealth {
            node: o.node.clone(),
            group: o.group.clone(),
            elastic: o.elastic,
            slurm: state.map(kiln_slurm::NodeState::short),
            reason: state.and_then(|s| s.reason.clone()),
            reason_by: state.and_then(|s| s.reason_by.clone()),
            booted: o.slurm.as_ref().and_then(|n| n.booted),
            carries_jobs: o.carries_jobs(),
            in_order: state.is_some_and(kiln_slurm::NodeState::in_service) || off,
            instances: o.instances.iter().map(InstanceReport::new).collect(),
            left_alone: o.hands_off(),
            finding,
        }
    }
}

impl InstanceReport {
    fn new(instance: &kiln_cloud::Instance) -> Self {
        InstanceReport {
            id: instance.id.clone(),
            status: match &instance.status {
                kiln_cloud::InstanceStatus::Error { reason } => format!("error: {reason}"),
                other => other.word().into(),
            },
            address: instance.address.map(|a| a.to_string()),
            image: crate::cloud_view::image_of(instance).map(String::from),
            created: instance.created,
        }
    }
}

impl From<Verdict> for FindingReport {
    fn from(verdict: Verdict) -> Self {
        FindingReport {
            is_early: verdict.is_early(now()),
            subject: verdict.subject,
            rule: verdict.rule.name.into(),
            text: verdict.text,
            since: verdict.since,
            due: verdict.due,
            actions: verdict.actions.iter().map(crate::reconcile::Action::words).collect(),
        }
    }
}
