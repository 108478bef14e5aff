//! How the fleet is, for people: what Slurm and the cloud say now, with the ages that kilnd has seen.

use std::path::Path;

use kiln_slurm::{Slurm, State};
use kiln_wire::health::{
    Console, FindingReport, FleetHealth, GroupFailures, InstanceReport, NodeDossier, NodeHealth,
    RequestReport,
};
use kiln_wire::{KnownInstances, Version};

use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::reconcile::{Finding, NodeObservation, PartialObservation, inspect};
use crate::store::{Request, Store, now};

/// For a deploy host whose list of the cloud's instances may lack some.
pub fn known_instances(store: &Store) -> Result<KnownInstances> {
    let mut known = KnownInstances::default();
    for (id, instance) in store.known_instances()? {
        known.nodes.entry(instance.node).or_default().push(id);
    }
    Ok(known)
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
        let (partial, findings) = inspect(self.store, self.slurm, self.fleet, self.share).await?;
        self.report(&partial, findings)
    }

    /// What was observed, as it is told. Nodes keep their order.
    pub(crate) fn report(&self, partial: &PartialObservation, findings: Vec<Finding>) -> Result<FleetHealth> {
        let mut findings: std::collections::HashMap<String, FindingReport> =
            findings.into_iter().map(|v| (v.subject.clone(), finding_report(v))).collect();
        let nodes = partial.observation.nodes.iter();
        let nodes = nodes.map(|o| node_health(o, findings.remove(&o.node))).collect();
        let mut strays: Vec<FindingReport> = findings.into_values().collect();
        strays.sort_by(|a, b| a.subject.cmp(&b.subject));
        Ok(FleetHealth {
            format: Version,
            observed: now(),
            slurm_problem: partial.slurm_problem.clone(),
            cloud_problem: partial.cloud_problem.clone(),
            last_look: self.store.last_look()?.map(|(time, _)| time),
            every: self.fleet.file.timing.reconcile,
            failing_groups: self.failing_groups()?,
            nodes,
            strays,
        })
    }

    pub async fn dossier(&self, node: &str) -> Result<NodeDossier> {
        let health = self.health().await?;
        let (observed, last_look) = (health.observed, health.last_look);
        let found = health.nodes.into_iter().find(|n| n.node == node);
        let found =
            found.ok_or_else(|| Error::Refused(format!("{node} is not a compute node of this cluster")))?;
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
            format: Version,
            observed,
            slurm_problem: health.slurm_problem,
            cloud_problem: health.cloud_problem,
            last_look,
            group_failures: health.failing_groups.into_iter().find(|t| t.group == found.group),
            health: found,
            consoles,
            requests: self
                .store
                .open_requests()?
                .iter()
                .filter(|r| r.node == node)
                .map(request_report)
                .collect(),
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

fn node_health(o: &NodeObservation, finding: Option<FindingReport>) -> NodeHealth {
    let state = o.state();
    let off = o.elastic && state.is_some_and(State::is_off_and_available);
    NodeHealth {
        node: o.node.clone(),
        group: o.group.clone(),
        elastic: o.elastic,
        slurm: state.map(State::to_string),
        reason: o.slurm.as_ref().and_then(|n| n.reason.clone()),
        reason_by: o.slurm.as_ref().and_then(|n| n.reason_by.clone()),
        booted: o.slurm.as_ref().and_then(|n| n.booted),
        slurmd_started: o.slurm.as_ref().and_then(|n| n.slurmd_started),
        carries_jobs: o.carries_jobs(),
        in_order: state.is_some_and(State::in_service) || off,
        instances: o.instances.iter().map(instance_report).collect(),
        left_alone: o.reason_to_leave_alone(),
        finding,
    }
}

fn instance_report(instance: &kiln_cloud::Instance) -> InstanceReport {
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

fn finding_report(finding: Finding) -> FindingReport {
    FindingReport {
        is_early: finding.is_early(now()),
        subject: finding.subject,
        rule: finding.rule.name.into(),
        text: finding.text,
        since: finding.since,
        due: finding.due,
        actions: finding.actions.iter().map(crate::reconcile::Action::words).collect(),
    }
}

fn request_report(request: &Request) -> RequestReport {
    RequestReport {
        id: request.id,
        kind: request.kind.word().into(),
        state: request.state.word().into(),
        received: request.received,
        attempts: request.attempts,
        error: request.error.clone(),
    }
}
