//! What is shown: kilnd implements it, and so do the tests.

use jiff::Timestamp;
use kiln_slurm::{History, HistoryQuery, PastJob, Sharing, SlurmRules, Statistics};
use kiln_wire::DashboardSettings;
use kiln_wire::health::NodeDossier;
use tokio::sync::watch;

use crate::auth::{Key, KeyKind};
use crate::describe::described;
use crate::figures::Figures;
use crate::view::{
    Elastic, Event, Finding, Health, ImageDetail, Job, Node, Rollout, RolloutDetail, RolloutNode, UsageReport,
};

/// Why an answer cannot be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// There is no such thing.
    Unknown(String),
    /// It cannot be done as things are.
    Refused(String),
    /// Something that is needed does not answer.
    Unavailable(String),
}

impl Problem {
    pub fn words(&self) -> &str {
        match self {
            Problem::Unknown(words) | Problem::Refused(words) | Problem::Unavailable(words) => words,
        }
    }
}

/// One look at Slurm and the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    pub observed: Timestamp,
    /// When kilnd last compared Slurm with the cloud.
    pub last_check: Option<Timestamp>,
    pub nodes: Vec<Node>,
    pub jobs: Vec<Job>,
    /// Of nodes and of everything else, in any order.
    pub findings: Vec<Finding>,
}

/// What kilnd has in its store; cheap to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// Those that are not over, and the newest others.
    pub rollouts: Vec<Rollout>,
    /// Of those that are not over, and of the newest.
    pub rollout_nodes: Vec<RolloutNode>,
    /// The newest, oldest of them first.
    pub events: Vec<Event>,
}

described! {
    /// What somebody wants of a rollout.
    pub enum Order {
        Pause = "pause",
        Resume = "resume",
        Abort = "abort",
    }
}

/// Which events are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    pub node: Option<String>,
    pub since: Option<Timestamp>,
    /// Only older ones than this.
    pub before: Option<i64>,
    pub most: u32,
}

pub trait Cluster: Send + Sync + 'static {
    fn name(&self) -> String;

    /// How others on the network may look at it; `None`: not at all.
    fn outside(&self) -> watch::Receiver<Option<DashboardSettings>> {
        watch::channel(None).1
    }

    /// Asks Slurm and the cloud; may take seconds.
    fn look(&self) -> impl Future<Output = Result<Look, Problem>> + Send;

    fn records(&self) -> Result<Records, Problem>;

    /// All there is to know of one node; may take seconds.
    fn dossier(&self, node: &str) -> impl Future<Output = Result<NodeDossier, Problem>> + Send;

    /// Asks the cloud; may take seconds.
    fn images(&self) -> impl Future<Output = Result<Vec<ImageDetail>, Problem>> + Send;

    fn health(&self) -> Result<Health, Problem>;

    fn elastic(&self) -> Result<Elastic, Problem>;

    fn usage(&self) -> Result<UsageReport, Problem>;

    fn rollout(&self, id: i64) -> Result<RolloutDetail, Problem>;

    /// Leaves an event with the name of whoever asked.
    fn steer(&self, id: i64, order: Order, by: &str) -> Result<(), Problem>;

    /// Newest first.
    fn events(&self, query: &EventQuery) -> Result<Vec<Event>, Problem>;

    /// Asks the accounting, which may be large: jobs that were there since a moment, newest first.
    fn history(
        &self,
        query: &HistoryQuery,
        since: Timestamp,
        most: usize,
    ) -> impl Future<Output = Result<History, Problem>> + Send;

    /// Asks the accounting about one job, or all members or parts of one.
    fn past_jobs(&self, id: &str, most: usize) -> impl Future<Output = Result<Vec<PastJob>, Problem>> + Send;

    /// Asks Slurm which cores, memory and devices of a node are whose.
    fn sharing(&self, node: &str) -> impl Future<Output = Result<Sharing, Problem>> + Send;

    /// Asks Slurm for QOS, reservations and licences.
    fn rules(&self) -> impl Future<Output = Result<SlurmRules, Problem>> + Send;

    /// Asks slurmctld how it does.
    fn statistics(&self) -> impl Future<Output = Result<Statistics, Problem>> + Send;

    /// For `/metrics`, beside those of what is shown; may take seconds.
    fn figures(&self) -> impl Future<Output = Result<Vec<Figures>, Problem>> + Send;

    /// Leaves an event that is about no node.
    fn log(&self, what: &str, why: &str, outcome: &str) -> Result<(), Problem>;

    fn add_key(&self, hash: &str, key: &Key) -> Result<(), Problem>;

    /// A key that has expired is none.
    fn key(&self, kind: KeyKind, hash: &str) -> Result<Option<Key>, Problem>;

    /// As [`Cluster::key`], and it is gone: of two who ask, one gets it.
    fn take_key(&self, kind: KeyKind, hash: &str) -> Result<Option<Key>, Problem>;
}
