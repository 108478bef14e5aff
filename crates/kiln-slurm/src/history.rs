//! Jobs that the accounting knows, with their steps: what `sacct` prints. Its text has had the same columns since 20.11, while
//! its JSON has another shape in every release.

use jiff::Timestamp;

use crate::measures::{bytes, milliseconds, resource};
use crate::node::moment;
use crate::rows::rows;

/// What `sacct` is asked about each job and step. The name is any user's text, and therefore the last column.
const COLUMNS: [&str; 26] = [
    "JobID",
    "User",
    "Account",
    "Partition",
    "QOS",
    "State",
    "ExitCode",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "NNodes",
    "ReqCPUS",
    "AllocCPUS",
    "ReqMem",
    "ReqTRES",
    "AllocTRES",
    "TotalCPU",
    "MaxRSS",
    "TRESUsageInTot",
    "NTasks",
    "NodeList",
    "Reason",
    "JobName",
];

/// Which jobs are wanted: those that were there between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HistoryQuery {
    pub user: Option<String>,
    pub account: Option<String>,
    pub partition: Option<String>,
    /// Slurm's word, `FAILED`.
    pub state: Option<String>,
}

/// How long a job may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeLimit {
    Seconds(u64),
    Unlimited,
    /// As long as its partition lets it.
    Partition,
    #[default]
    Unknown,
}

impl TimeLimit {
    /// Minutes, or a word.
    fn parse(text: &str) -> TimeLimit {
        match text.to_ascii_lowercase().as_str() {
            "unlimited" | "infinite" => TimeLimit::Unlimited,
            "partition_limit" => TimeLimit::Partition,
            text => text
                .parse()
                .map_or(TimeLimit::Unknown, |minutes: u64| TimeLimit::Seconds(minutes.saturating_mul(60))),
        }
    }
}

/// What a job's script or step gave back, and the signal that ended it; 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExitCode {
    pub code: u16,
    pub signal: u16,
}

/// A job, or a step of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The job as users know it: `17`, `17_3` of an array, `17_[4-9]` for all members that wait, `17+1` of a job with several parts.
    pub job: String,
    /// `batch`, `extern`, `0`; `None`: it is the job itself.
    pub step: Option<String>,
    pub name: String,
    pub user: String,
    pub account: String,
    pub partition: String,
    pub qos: String,
    /// Slurm's word, `COMPLETED`.
    pub state: String,
    /// The user, as a number, who cancelled it.
    pub cancelled_by: Option<String>,
    /// Why it waits or how it ended, in Slurm's word.
    pub reason: String,
    pub exit: Option<ExitCode>,
    pub submitted: Option<Timestamp>,
    pub eligible: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// Seconds, without those when it was suspended.
    pub elapsed: u64,
    pub limit: TimeLimit,
    pub nodes: u32,
    pub cpus_requested: u32,
    /// It has or had so many.
    pub cpus: u32,
    /// Bytes that it asked for on all its nodes together. `None`: it is not known, or it has all there is.
    pub memory_requested: Option<u64>,
    pub gpus: Option<u32>,
    /// Milliseconds that its processes were on a core.
    pub cpu_time: Option<u64>,
    /// Bytes: what its processes had at most, all together.
    pub memory_used: Option<u64>,
    pub nodelist: String,
}

impl Record {
    fn parse(fields: &[&str; COLUMNS.len()]) -> Option<Record> {
        let &[
            id,
            user,
            account,
            partition,
            qos,
            state,
            exit,
            submit,
            eligible,
            start,
            end,
            elapsed,
            limit,
            nodes,
            cpus_requested,
            cpus,
            memory,
            requested,
            allocated,
            cpu_time,
            rss,
            used,
            tasks,
            nodelist,
            reason,
            name,
        ] = fields;
        // No id has a point but that of a step.
        let (job, step) = id.split_once('.').map_or((id, None), |(job, step)| (job, Some(step)));
        if !job.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let mut words = state.split_whitespace();
        let count = |text: &str| text.parse().unwrap_or(0);
        let (nodes, cpus) = (count(nodes), count(cpus));
        let cpus_requested = count(cpus_requested);
        let on = |list: &str, name: &str| resource(list, name).and_then(|value| bytes(value, 1));
        let tasks: u64 = tasks.parse().unwrap_or(1);
        let gpus = resource(allocated, "gres/gpu").or_else(|| resource(requested, "gres/gpu"));
        Some(Record {
            job: job.into(),
            step: step.map(String::from),
            name: name.into(),
            user: user.into(),
            account: account.into(),
            partition: partition.into(),
            qos: qos.into(),
            state: words.next().unwrap_or_default().into(),
            cancelled_by: words.next().filter(|by| *by == "by").and(words.next()).map(String::from),
            reason: if reason == "None" { String::new() } else { reason.into() },
            exit: exit_code(exit),
            submitted: moment(submit),
            eligible: moment(eligible),
            started: moment(start),
            ended: moment(end),
            elapsed: elapsed.parse().unwrap_or(0),
            limit: TimeLimit::parse(limit),
            nodes,
            cpus_requested,
            cpus,
            memory_requested: on(allocated, "mem")
                .or_else(|| on(requested, "mem"))
                .or_else(|| asked_memory(memory, nodes, cpus.max(cpus_requested)))
                .filter(|size| *size > 0),
            gpus: gpus.and_then(|count| count.parse().ok()),
            cpu_time: milliseconds(cpu_time),
            memory_used: on(used, "mem")
                .or_else(|| Some(bytes(rss, 1)?.saturating_mul(tasks)))
                .filter(|size| *size > 0),
            nodelist: if nodelist == "None assigned" { String::new() } else { nodelist.into() },
        })
    }

    /// Milliseconds: its cores times the time that it ran.
    pub fn had(&self) -> u64 {
        u64::from(self.cpus).saturating_mul(self.elapsed).saturating_mul(1000)
    }

    /// The number before all that tells members and parts apart.
    pub fn base(&self) -> &str {
        base(&self.job)
    }
}

/// The number of a job before all that tells members and parts apart: `17` of `17_3`.
pub fn base(job: &str) -> &str {
    job.split(['_', '+']).next().unwrap_or(job)
}

/// `1:0`: a code and a signal.
fn exit_code(text: &str) -> Option<ExitCode> {
    let (code, signal) = text.split_once(':')?;
    Some(ExitCode { code: code.parse().ok()?, signal: signal.parse().ok()? })
}

/// Up to 20.11 it is told of each node (`4Gn`) or each core (`4Gc`).
fn asked_memory(text: &str, nodes: u32, cpus: u32) -> Option<u64> {
    if let Some(each) = text.strip_suffix('n') {
        return Some(bytes(each, 1 << 20)?.saturating_mul(nodes.into()));
    }
    if let Some(each) = text.strip_suffix('c') {
        return Some(bytes(each, 1 << 20)?.saturating_mul(cpus.into()));
    }
    bytes(text, 1 << 20)
}

/// A job with its steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastJob {
    pub record: Record,
    pub steps: Vec<Record>,
}

/// Of a hundred: how much of what a job had it used. `None`: it was not measured, or there is nothing to compare it with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Efficiency {
    pub cpu: Option<u32>,
    pub memory: Option<u32>,
    pub time: Option<u32>,
}

impl PastJob {
    /// Milliseconds on cores, of all steps.
    pub fn cpu_time(&self) -> Option<u64> {
        // The job's own figure is the sum of its steps', where sacct was asked for these.
        self.record.cpu_time.filter(|time| *time > 0 || self.steps.iter().any(|step| step.cpu_time.is_some()))
    }

    /// Bytes: steps mostly run one after the other, beside that of the script. The largest of them counts.
    pub fn memory_used(&self) -> Option<u64> {
        self.steps.iter().filter_map(|step| step.memory_used).max().or(self.record.memory_used)
    }

    pub fn efficiency(&self) -> Efficiency {
        let record = &self.record;
        let had = record.had();
        let limit = match record.limit {
            TimeLimit::Seconds(seconds) => Some(seconds),
            _ => None,
        };
        Efficiency {
            cpu: percent(self.cpu_time(), Some(had)),
            memory: percent(self.memory_used(), record.memory_requested),
            time: percent(record.started.map(|_| record.elapsed), limit),
        }
    }
}

fn percent(used: Option<u64>, had: Option<u64>) -> Option<u32> {
    let (used, had) = (u128::from(used?), u128::from(had.filter(|had| *had > 0)?));
    u32::try_from((used * 100 + had / 2) / had).ok()
}

/// How `sacct` is asked.
pub(crate) fn arguments(delimiter: &str) -> Vec<String> {
    vec![
        "--noheader".into(),
        "--parsable2".into(),
        format!("--delimiter={delimiter}"),
        format!("--format={}", COLUMNS.join(",")),
    ]
}

impl HistoryQuery {
    /// Of jobs, without their steps.
    pub(crate) fn arguments(&self, from: Timestamp, to: Timestamp) -> Vec<String> {
        let moment = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let mut arguments = vec!["--allocations".to_string()];
        arguments.push(format!("--starttime={}", moment(from)));
        arguments.push(format!("--endtime={}", moment(to)));
        arguments.push(match &self.user {
            Some(user) => format!("--user={user}"),
            None => "--allusers".into(),
        });
        arguments.extend(self.account.as_ref().map(|account| format!("--accounts={account}")));
        arguments.extend(self.partition.as_ref().map(|partition| format!("--partition={partition}")));
        arguments.extend(self.state.as_ref().map(|state| format!("--state={state}")));
        arguments
    }

    /// A job that was in a state then may be in another now.
    pub fn takes(&self, record: &Record) -> bool {
        self.state.as_ref().is_none_or(|state| state.eq_ignore_ascii_case(&record.state))
    }
}

/// Reads what `sacct` prints.
pub fn parse(text: &str, delimiter: &str) -> Vec<PastJob> {
    let mut jobs: Vec<PastJob> = Vec::new();
    for record in rows(text, delimiter).iter().filter_map(Record::parse) {
        match (record.step.is_some(), jobs.last_mut()) {
            (true, Some(job)) if job.record.job == record.job => job.steps.push(record),
            (true, _) => {}
            (false, _) => jobs.push(PastJob { record, steps: Vec::new() }),
        }
    }
    jobs
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
