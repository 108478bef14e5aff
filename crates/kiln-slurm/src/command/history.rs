//! Asking the accounting, which may be large: in small pieces, for a limited time, and never for more than is shown.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;

use super::{Bounds, Slurm};
use crate::error::Result;
use crate::history::{self, HistoryQuery, PastJob, Record};
use crate::rows::delimiter;

/// One question. slurmdbd holds up others while it answers.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(20), bytes: 8 << 20 };
/// All questions of one history.
const WHOLE: Duration = Duration::from_secs(40);
/// How far back the questions go, one after the other, until there are enough jobs.
const HOURS: [u64; 6] = [1, 6, 24, 3 * 24, 10 * 24, 31 * 24];

/// Jobs that the accounting has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Those that are not over first, then the one that ended last.
    pub jobs: Vec<Record>,
    /// It is known of jobs that ended since then.
    pub since: Timestamp,
    /// All that were asked for.
    pub is_whole: bool,
}

impl Slurm {
    /// Jobs that were there since a moment, a month ago at most, newest first; not more than `most`.
    pub async fn history(
        &self,
        query: &HistoryQuery,
        since: Timestamp,
        now: Timestamp,
        most: usize,
    ) -> Result<History> {
        let began = tokio::time::Instant::now();
        let mut known = HashSet::new();
        let mut history = History { since: now, ..History::default() };
        for hours in HOURS {
            let from = since.max(now - Duration::from_secs(hours * 3600));
            if from >= history.since {
                continue;
            }
            let arguments = query.arguments(from, history.since);
            let (jobs, is_whole) = match self.sacct(&arguments).await {
                // What the first questions brought is better than nothing.
                Err(_) if !history.jobs.is_empty() => break,
                answer => answer?,
            };
            let jobs = jobs.into_iter().map(|job| job.record).filter(|record| query.takes(record));
            history.jobs.extend(jobs.filter(|record| known.insert(record.job.clone())));
            if !is_whole {
                break;
            }
            history.since = from;
            if history.jobs.len() >= most || from <= since || began.elapsed() > WHOLE {
                break;
            }
        }
        history.jobs.sort_by_key(|record| {
            std::cmp::Reverse((record.ended.unwrap_or(Timestamp::MAX), record.submitted, record.job.clone()))
        });
        history.is_whole = history.since <= since && history.jobs.len() <= most;
        history.jobs.truncate(most);
        Ok(history)
    }

    /// What the accounting has of a job: itself, or all members of an array or parts of a job with this number; the first of them.
    pub async fn past_jobs(&self, id: &str, most: usize) -> Result<Vec<PastJob>> {
        // Parts of a job are asked for by the number of the whole.
        let asked = id.split('+').next().unwrap_or(id);
        let (mut jobs, _) = self.sacct(&[format!("--jobs={asked}")]).await?;
        if id != asked {
            jobs.retain(|job| job.record.job == id);
        }
        jobs.truncate(most);
        Ok(jobs)
    }

    /// And whether that is all that there was to read.
    async fn sacct(&self, more: &[String]) -> Result<(Vec<PastJob>, bool)> {
        let delimiter = delimiter();
        let arguments: Vec<String> =
            history::arguments(&delimiter).into_iter().chain(more.iter().cloned()).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (text, is_whole) = self.call_within("sacct", &arguments, BOUNDS).await?;
        Ok((history::parse(&text, &delimiter), is_whole))
    }
}
