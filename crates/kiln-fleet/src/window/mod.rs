//! kilnd as the dashboard and the API show it: what Slurm and the cloud say now, and what the store has.

mod admission;
mod elastic;
mod figures;
mod images;
mod node_reports;
mod outside;
mod recent;
mod slurm_pages;
mod usage_report;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kiln_slurm::{History, HistoryQuery, PastJob, Sharing, Slurm, SlurmRules, Statistics};
use kiln_web::auth::{Key, KeyKind};
use kiln_web::view::{
    Elastic, Event, Finding, Health, ImageDetail, Node, RolloutDetail, Severity, UsageReport,
};
use kiln_web::{Cluster, EventQuery, Figures, Look, Order, Problem, Records};
use kiln_wire::DashboardSettings;
use kiln_wire::health::{FleetHealth, NodeDossier, NodeHealth};
use kiln_wire::rollout::{RolloutId, RolloutReport};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::health::Sources;
use crate::reconcile::{NodeObservation, inspect};
use crate::rollout;
use crate::store::Store;
use crate::usage::Usage;

pub use admission::{add_token, login, remove_token, tokens};
pub use node_reports::NodeReports;
pub use outside::outside;
pub use slurm_pages::SlurmPages;
pub use usage_report::count_queue;

/// How many events and rollouts are shown at once.
const EVENTS: u32 = 300;
const ROLLOUTS: u32 = 20;
/// How long Slurm may take for the queue, while somebody waits.
const SOON: Duration = Duration::from_secs(20);

pub struct Window {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    pub share: PathBuf,
    pub fleet: watch::Receiver<Option<Arc<Fleet>>>,
    pub reports: Arc<NodeReports>,
    /// Rollouts that are over, and change no more.
    pub past: Mutex<HashMap<RolloutId, Arc<RolloutReport>>>,
    pub usage: Arc<Usage>,
    pub pages: SlurmPages,
    /// How others on the network may look.
    pub outside: watch::Receiver<Option<DashboardSettings>>,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(words) => Problem::Refused(words),
            other => Problem::Unavailable(other.chain()),
        }
    }
}

impl Window {
    fn fleet(&self) -> std::result::Result<Arc<Fleet>, Problem> {
        let none = || Problem::Unavailable("kilnd knows no nodes yet: `kiln configure` tells it".into());
        self.fleet.borrow().clone().ok_or_else(none)
    }

    fn reports(&self) -> Result<Vec<Arc<RolloutReport>>> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reports = Vec::new();
        for id in self.store.newest_rollouts(ROLLOUTS)? {
            if let Some(known) = past.get(&id) {
                reports.push(known.clone());
                continue;
            }
            let report = Arc::new(rollout::report(&self.store, id)?);
            if !report.rollout.state.is_open() {
                past.insert(id, report.clone());
            }
            reports.push(report);
        }
        past.retain(|id, _| reports.iter().any(|report| report.rollout.id == *id));
        Ok(reports)
    }

    async fn observe(&self, fleet: &Fleet) -> Result<Look> {
        let sources = Sources { store: &self.store, slurm: &self.slurm, fleet, share: &self.share };
        let (seen, queue) = tokio::join!(
            inspect(&self.store, &self.slurm, fleet, &self.share),
            tokio::time::timeout(SOON, self.slurm.queue()),
        );
        let (partial, findings) = seen?;
        let health = sources.report(&partial, findings)?;
        let nodes = partial.observation.nodes.iter().zip(&health.nodes).map(|(o, health)| node(o, health));
        let mut look = Look {
            observed: health.observed,
            last_check: health.last_look,
            nodes: nodes.collect(),
            findings: findings_of(&health),
            ..Look::default()
        };
        let nodes = self.reports.health(&fleet.file).nodes;
        look.findings.extend(nodes.iter().flat_map(kiln_web::health::health_findings));
        let problem = match queue {
            Ok(Ok(jobs)) => {
                look.jobs = jobs.into_iter().map(kiln_web::waiting_job).collect();
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", SOON.as_secs())),
        };
        // That Slurm does not answer is told once.
        if let Some(problem) = problem.filter(|_| health.slurm_problem.is_none()) {
            look.findings.push(kiln_web::blind("the queue cannot be read", &problem, None));
        }
        Ok(look)
    }
}

fn node(o: &NodeObservation, health: &NodeHealth) -> Node {
    let slurm = o.slurm.as_ref();
    let instance = health.instances.last();
    Node {
        name: o.node.clone(),
        group: o.group.clone(),
        elastic: o.elastic,
        kind: kiln_web::node_kind(o.state(), health.carries_jobs, o.rollout.is_some()),
        state: health.slurm.clone(),
        partitions: slurm.map(|n| n.partitions.clone()).unwrap_or_default(),
        cpus: slurm.and_then(|n| n.cores).map_or(0, |cores| cores.iter().product()),
        cpus_allocated: slurm.map_or(0, |n| n.allocated),
        memory_mib: slurm.and_then(|n| n.real_memory).unwrap_or(0),
        reason: health.reason.clone(),
        reason_by: health.reason_by.clone(),
        booted: health.booted,
        slurmd_started: health.slurmd_started,
        address: instance.and_then(|i| i.address.clone()),
        image: instance.and_then(|i| i.image.clone()),
        instance: instance.map(|i| i.status.clone()),
        finding: health.finding.as_ref().map(kiln_web::finding),
    }
}

fn findings_of(health: &FleetHealth) -> Vec<Finding> {
    let of_nodes = health.nodes.iter().filter_map(|node| node.finding.as_ref());
    let mut findings: Vec<Finding> = of_nodes.chain(&health.strays).map(kiln_web::finding).collect();
    let slurm = health.slurm_problem.iter().map(|p| kiln_web::blind("Slurm cannot be asked", p, None));
    let cloud =
        health.cloud_problem.iter().map(|p| kiln_web::blind("the cloud cannot be relied on", p, None));
    findings.extend(slurm.chain(cloud));
    if health.is_unattended() {
        let words = "several checks of Slurm against the cloud were missed";
        findings.push(kiln_web::blind("nothing is repaired at present", words, health.last_look));
    }
    findings.extend(health.failing_groups.iter().map(|failing| Finding {
        severity: Severity::Warning,
        subject: format!("group {}", failing.group),
        text: format!("the cloud has refused its nodes: {}", failing.record.problem),
        next: if failing.is_paused {
            "Kiln waits before it asks for another.".into()
        } else {
            "Kiln asks again when Slurm needs one.".into()
        },
        due: failing.record.paused_until.filter(|_| failing.is_paused),
        since: Some(failing.record.last_failure),
    }));
    findings
}

fn event((id, event): (i64, kiln_wire::Event)) -> Event {
    let kiln_wire::Event { time, node, what, why, outcome } = event;
    Event { id, time, node, what, why, outcome }
}

impl Cluster for Window {
    fn name(&self) -> String {
        self.fleet.borrow().as_ref().map(|fleet| fleet.file.cluster.clone()).unwrap_or_default()
    }

    fn outside(&self) -> watch::Receiver<Option<DashboardSettings>> {
        self.outside.clone()
    }

    async fn look(&self) -> std::result::Result<Look, Problem> {
        let fleet = self.fleet()?;
        Ok(self.observe(&fleet).await?)
    }

    fn records(&self) -> std::result::Result<Records, Problem> {
        let reports = self.reports()?;
        let newest = reports.iter().map(|report| report.rollout.id).max();
        let is_shown = |report: &&Arc<RolloutReport>| {
            report.rollout.state.is_open() || Some(report.rollout.id) == newest
        };
        let events = self.store.numbered_events(None, Timestamp::UNIX_EPOCH, None, EVENTS)?;
        Ok(Records {
            rollouts: reports.iter().map(|report| kiln_web::rollout(report)).collect(),
            rollout_nodes: reports
                .iter()
                .filter(is_shown)
                .flat_map(|report| kiln_web::rollout_nodes(report))
                .collect(),
            events: events.into_iter().rev().map(event).collect(),
        })
    }

    async fn dossier(&self, node: &str) -> std::result::Result<NodeDossier, Problem> {
        let fleet = self.fleet()?;
        let (store, slurm, share) = (self.store.as_ref(), &self.slurm, self.share.as_path());
        Ok(Sources { store, slurm, fleet: &fleet, share }.dossier(node).await?)
    }

    async fn images(&self) -> std::result::Result<Vec<ImageDetail>, Problem> {
        let fleet = self.fleet()?;
        let images = fleet.cloud.images().await.map_err(Error::from)?;
        Ok(images.into_iter().filter_map(images::detail).collect())
    }

    fn elastic(&self) -> std::result::Result<Elastic, Problem> {
        Ok(elastic::seen(&self.store, &self.fleet()?.file)?)
    }

    fn usage(&self) -> std::result::Result<UsageReport, Problem> {
        Ok(usage_report::seen(&self.store, &self.fleet()?.file)?)
    }

    fn health(&self) -> std::result::Result<Health, Problem> {
        Ok(self.reports.health(&self.fleet()?.file))
    }

    fn rollout(&self, id: i64) -> std::result::Result<RolloutDetail, Problem> {
        if self.store.rollout(id)?.is_none() {
            return Err(Problem::Unknown(format!("there is no rollout {id}")));
        }
        let report = rollout::report(&self.store, id)?;
        Ok(RolloutDetail { rollout: kiln_web::rollout(&report), nodes: kiln_web::rollout_nodes(&report) })
    }

    fn steer(&self, id: i64, order: Order, by: &str) -> std::result::Result<(), Problem> {
        if self.store.rollout(id)?.is_none() {
            return Err(Problem::Unknown(format!("there is no rollout {id}")));
        }
        match order {
            Order::Pause => rollout::pause(&self.store, id, by)?,
            Order::Resume => rollout::resume(&self.store, id, by)?,
            Order::Abort => rollout::abort(&self.store, id, by)?,
        }
        Ok(())
    }

    fn events(&self, query: &EventQuery) -> std::result::Result<Vec<Event>, Problem> {
        let since = query.since.unwrap_or(Timestamp::UNIX_EPOCH);
        let events = self.store.numbered_events(query.node.as_deref(), since, query.before, query.most)?;
        Ok(events.into_iter().map(event).collect())
    }

    async fn history(
        &self,
        query: &HistoryQuery,
        since: Timestamp,
        most: usize,
    ) -> std::result::Result<History, Problem> {
        self.pages.history(&self.slurm, query, since, most).await
    }

    async fn past_jobs(&self, id: &str, most: usize) -> std::result::Result<Vec<PastJob>, Problem> {
        self.pages.past_jobs(&self.slurm, id, most).await
    }

    async fn sharing(&self, node: &str) -> std::result::Result<Sharing, Problem> {
        self.pages.sharing(&self.slurm, node).await
    }

    async fn rules(&self) -> std::result::Result<SlurmRules, Problem> {
        self.pages.rules(&self.slurm).await
    }

    async fn statistics(&self) -> std::result::Result<Statistics, Problem> {
        self.pages.statistics(&self.slurm).await
    }

    async fn figures(&self) -> std::result::Result<Vec<Figures>, Problem> {
        let fleet = self.fleet.borrow().clone();
        let monitoring = fleet.as_ref().and_then(|fleet| fleet.file.monitoring.as_ref());
        let mut all = figures::of_store(&self.store, fleet.as_deref())?;
        all.extend(figures::of_slurm(&self.slurm).await);
        all.extend(figures::of_cloud());
        all.extend(figures::of_usage(&self.usage, monitoring));
        all.extend(figures::of_certificates(monitoring));
        Ok(all)
    }

    fn log(&self, what: &str, why: &str, outcome: &str) -> std::result::Result<(), Problem> {
        Ok(self.store.log("", what, why, outcome)?)
    }

    fn add_key(&self, hash: &str, key: &Key) -> std::result::Result<(), Problem> {
        Ok(self.store.add_key(hash, key)?)
    }

    fn key(&self, kind: KeyKind, hash: &str) -> std::result::Result<Option<Key>, Problem> {
        let fleet = self.fleet.borrow().clone();
        let monitoring = fleet.as_ref().and_then(|fleet| fleet.file.monitoring.as_ref());
        if let Some(key) = monitoring.and_then(|monitoring| admission::prometheus(monitoring, kind, hash)) {
            return Ok(Some(key));
        }
        Ok(self.store.key(kind, hash)?)
    }

    fn take_key(&self, kind: KeyKind, hash: &str) -> std::result::Result<Option<Key>, Problem> {
        Ok(self.store.take_key(kind, hash)?)
    }
}
