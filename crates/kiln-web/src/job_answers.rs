//! The answers about jobs of the past, about whose a node's cores are, and about what Slurm allows and counts.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use kiln_slurm::HistoryQuery;
use serde::Deserialize;

use crate::answers::Refusal;
use crate::cluster::{Cluster, Problem};
use crate::limits::{Allowances, allowances};
use crate::parameters::{Path, Query};
use crate::past::{self, History, JobDetail, PastJob};
use crate::routes::App;
use crate::scheduler::{Scheduler, scheduler};
use crate::shares::{NodeShares, node_shares};
use crate::view::Job;

type Reply<T> = Result<Json<T>, Refusal>;

const DAY: Duration = Duration::from_secs(86_400);
/// How far back a history goes.
const FURTHEST: Duration = Duration::from_secs(31 * 86_400);
const MOST_JOBS: usize = 1000;
const USUAL_JOBS: usize = 200;
/// Members of an array on one page.
pub const MOST_MEMBERS: usize = 500;

#[derive(Deserialize)]
pub struct HistoryFilter {
    user: Option<String>,
    account: Option<String>,
    partition: Option<String>,
    state: Option<String>,
    since: Option<String>,
    most: Option<usize>,
}

fn wrong(words: String) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, words, None)
}

/// A field of a form that is left empty asks for nothing.
fn name(what: &str, value: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    // It becomes an argument of sacct, in which a comma begins another name.
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+' | '$');
    if value.len() > 128 || value.starts_with(['-', '+']) || !value.chars().all(fits) {
        return Err(wrong(format!("{value:?} is not the name of {what}")));
    }
    Ok(Some(value))
}

/// A time, or so many hours or days ago: `6h`, `7d`. A month at most.
fn since(text: Option<&str>, now: Timestamp) -> Result<Timestamp, Refusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(now - DAY) };
    let span = |unit: char, seconds: u64| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_secs(count.checked_mul(seconds)?).min(FURTHEST))
    };
    let since = match span('h', 3600).or_else(|| span('d', 86_400)) {
        Some(span) => now - span,
        None => text.parse().map_err(|_| {
            wrong(format!(
                "{text:?} is neither a time such as 2026-01-31T09:00:00Z nor a span such as 6h or 7d"
            ))
        })?,
    };
    Ok(since.clamp(now - FURTHEST, now))
}

pub async fn history<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Query(filter): Query<HistoryFilter>,
) -> Reply<History> {
    let now = Timestamp::now();
    let since = since(filter.since.as_deref(), now)?;
    let most = filter.most.unwrap_or(USUAL_JOBS).clamp(1, MOST_JOBS);
    let query = HistoryQuery {
        user: name("a user", filter.user)?,
        account: name("an account", filter.account)?,
        partition: name("a partition", filter.partition)?,
        state: name("a state", filter.state)?.map(|state| state.to_ascii_uppercase()),
    };
    match app.cluster.history(&query, since, most).await {
        Ok(history) => Ok(Json(History {
            jobs: history.jobs.iter().map(PastJob::from).collect(),
            since: history.since,
            is_whole: history.is_whole,
            problem: None,
        })),
        Err(Problem::Unavailable(problem)) => {
            let picture = app.hub.picture().await?;
            let jobs =
                picture.jobs.values().filter(|job| is_wanted(job, &query)).take(most).map(PastJob::from);
            Ok(Json(History { jobs: jobs.collect(), since: now, is_whole: false, problem: Some(problem) }))
        }
        Err(problem) => Err(problem.into()),
    }
}

fn is_wanted(job: &Job, query: &HistoryQuery) -> bool {
    let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
    is(&query.user, &job.user)
        && is(&query.account, &job.account)
        && is(&query.state, &job.state)
        && query.partition.as_ref().is_none_or(|name| job.partition.split(',').any(|one| one == name))
}

/// `17`, `17_3` of an array, `17+1` of a job with several parts.
fn is_job_id(id: &str) -> bool {
    let is_number =
        |text: &str| !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit());
    match id.split_once(['_', '+']) {
        Some((job, member)) => is_number(job) && is_number(member),
        None => is_number(id),
    }
}

pub async fn job<C: Cluster>(State(app): State<Arc<App<C>>>, Path(id): Path<String>) -> Reply<JobDetail> {
    if !is_job_id(&id) {
        return Err(wrong(format!("{id:?} is not the number of a job, such as 17 or 17_3")));
    }
    let picture = app.hub.picture().await?;
    let is_whole = kiln_slurm::base(&id) == id;
    let is_it = |job: &&Job| job.id == id || is_whole && kiln_slurm::base(&job.id) == id;
    let queue: Vec<Job> = picture.jobs.values().filter(is_it).take(MOST_MEMBERS).cloned().collect();
    let past = match app.cluster.past_jobs(&id, MOST_MEMBERS).await {
        Ok(jobs) => Ok(jobs),
        Err(Problem::Unavailable(problem)) => Err(problem),
        Err(problem) => return Err(problem.into()),
    };
    if queue.is_empty() && past.as_ref().is_ok_and(Vec::is_empty) {
        return Err(Refusal(
            StatusCode::NOT_FOUND,
            format!("neither the queue nor the accounting knows job {id}"),
            None,
        ));
    }
    Ok(Json(past::detail(&id, queue, past)))
}

pub async fn shares<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Path(name): Path<String>,
) -> Reply<NodeShares> {
    let picture = app.hub.picture().await?;
    if !picture.nodes.contains_key(&name) {
        let words = format!("{name} is not a compute node of this cluster");
        return Err(Refusal(StatusCode::NOT_FOUND, words, None));
    }
    let sharing = app.cluster.sharing(&name).await?;
    Ok(Json(node_shares(&name, &sharing, &picture.jobs)))
}

pub async fn limits<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<Allowances> {
    Ok(Json(allowances(&app.cluster.rules().await?)))
}

pub async fn statistics<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<Scheduler> {
    Ok(Json(scheduler(&app.cluster.statistics().await?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_numbers() {
        for id in ["17", "17_3", "17+1"] {
            assert!(is_job_id(id), "{id}");
        }
        for id in ["", "x", "17_", "17.batch", "17,18", "--jobs", "17_[1-3]", "99999999999"] {
            assert!(!is_job_id(id), "{id}");
        }
    }

    #[test]
    fn a_history_goes_back_a_month() {
        let now: Timestamp = "2026-11-17T12:00:00Z".parse().unwrap();
        let ago = |text: &str| since(Some(text), now).map(|since| now.duration_since(since).as_secs()).ok();
        assert_eq!(ago("6h"), Some(6 * 3600));
        assert_eq!(ago("7d"), Some(7 * 86_400));
        assert_eq!(ago(""), Some(86_400));
        assert_eq!(ago("2026-11-17T11:00:00Z"), Some(3600));
        assert_eq!(ago("1999-01-01T00:00:00Z"), Some(31 * 86_400));
        assert_eq!(ago("99999999999999999d"), None);
        assert_eq!(ago("9000d"), Some(31 * 86_400));
        assert_eq!(ago("yesterday"), None);
    }

    #[test]
    fn names_are_no_options() {
        for text in ["ann", "svc_1", "a.b-c", "machine$"] {
            assert_eq!(name("x", Some(text.into())).unwrap().as_deref(), Some(text));
        }
        for text in ["-x", "a,b", "a b", "+all", "a\nb"] {
            assert!(name("x", Some(text.into())).is_err(), "{text}");
        }
        assert_eq!(name("x", Some(String::new())).unwrap(), None);
    }
}
