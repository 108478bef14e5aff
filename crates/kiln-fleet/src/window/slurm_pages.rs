//! What pages about jobs need of Slurm, when somebody opens one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kiln_slurm::{History, HistoryQuery, PastJob, Sharing, Slurm, SlurmRules, Statistics};
use kiln_web::Problem;

use super::recent::Recent;
use crate::error::Error;

/// How long an answer of the accounting is good.
const OF_ACCOUNTING: Duration = Duration::from_secs(30);
/// The same of slurmctld, which is asked about the queue every few seconds anyway.
const OF_SLURMCTLD: Duration = Duration::from_secs(10);
/// Moments are rounded, so that a page that is looked at twice is one question.
const ROUND: i64 = 60;
/// How long slurmctld may take for its figures.
const SOON: Duration = Duration::from_secs(20);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Question {
    History(HistoryQuery, Timestamp, usize),
    Job(String, usize),
}

enum Told {
    History(History),
    Jobs(Vec<PastJob>),
}

/// What was asked, for a while.
pub struct SlurmPages {
    /// History and single jobs share one turn at the database.
    accounting: Recent<Question, Told>,
    nodes: Recent<String, Option<Sharing>>,
    rules: Recent<(), SlurmRules>,
    statistics: Recent<(), Statistics>,
}

impl Default for SlurmPages {
    fn default() -> Self {
        SlurmPages {
            accounting: Recent::new(OF_ACCOUNTING),
            nodes: Recent::new(OF_SLURMCTLD),
            rules: Recent::new(OF_SLURMCTLD),
            statistics: Recent::new(OF_SLURMCTLD),
        }
    }
}

/// What Slurm refuses about the question is the asker's, everything else is Slurm's.
fn problem(error: kiln_slurm::Error) -> Problem {
    match error {
        kiln_slurm::Error::Refused { program, message } if program == "sacct" => {
            Problem::Refused(format!("sacct: {message}"))
        }
        kiln_slurm::Error::NoAccounting { .. } => {
            Problem::Unavailable("this cluster keeps no accounts of jobs".into())
        }
        other => Problem::from(Error::from(other)),
    }
}

impl SlurmPages {
    pub async fn history(
        &self,
        slurm: &Slurm,
        query: &HistoryQuery,
        since: Timestamp,
        most: usize,
    ) -> Result<History, Problem> {
        let rounded = since.as_second().div_euclid(ROUND) * ROUND;
        let since = Timestamp::from_second(rounded).unwrap_or(since);
        let (slurm, asked) = (slurm.clone(), query.clone());
        let ask = async move {
            let history = slurm.history(&asked, since, Timestamp::now(), most).await;
            history.map(Told::History).map_err(problem)
        };
        let told = self.accounting.get(Question::History(query.clone(), since, most), ask).await?;
        match told.as_ref() {
            Told::History(history) => Ok(history.clone()),
            Told::Jobs(_) => Ok(History::default()),
        }
    }

    pub async fn past_jobs(&self, slurm: &Slurm, id: &str, most: usize) -> Result<Vec<PastJob>, Problem> {
        let (slurm, asked) = (slurm.clone(), id.to_string());
        let ask = async move { slurm.past_jobs(&asked, most).await.map(Told::Jobs).map_err(problem) };
        let told = self.accounting.get(Question::Job(id.into(), most), ask).await?;
        match told.as_ref() {
            Told::Jobs(jobs) => Ok(jobs.clone()),
            Told::History(_) => Ok(Vec::new()),
        }
    }

    pub async fn sharing(&self, slurm: &Slurm, node: &str) -> Result<Sharing, Problem> {
        let (slurm, name) = (slurm.clone(), node.to_string());
        let ask = async move { slurm.sharing(&name).await.map_err(problem) };
        let sharing = self.nodes.get(node.into(), ask).await?;
        let none = || Problem::Unavailable(format!("Slurm does not know {node}"));
        Option::clone(&sharing).ok_or_else(none)
    }

    pub async fn rules(&self, slurm: &Slurm) -> Result<SlurmRules, Problem> {
        let slurm = slurm.clone();
        let rules = self.rules.get((), async move { slurm.rules().await.map_err(problem) });
        rules.await.map(Arc::unwrap_or_clone)
    }

    pub async fn statistics(&self, slurm: &Slurm) -> Result<Statistics, Problem> {
        let slurm = slurm.clone();
        let ask = async move {
            let late = || Problem::Unavailable(format!("sdiag: no answer within {} s", SOON.as_secs()));
            tokio::time::timeout(SOON, slurm.statistics()).await.map_err(|_| late())?.map_err(problem)
        };
        self.statistics.get((), ask).await.map(Arc::unwrap_or_clone)
    }
}
