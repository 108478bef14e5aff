//! Jobs of the past: what is shown of the accounting's records, and what is to be said of what a job used.

use jiff::Timestamp;
use kiln_slurm::{TimeLimit, ended};

use crate::describe::described;
use crate::view::Job;

described! {
    /// A job that the accounting knows, which may still wait or run.
    pub struct PastJob {
        /// `17`, `17_3` of an array, `17_[4-9]` for all members that wait, `17+1` of a job with several parts.
        pub id: String,
        pub name: String,
        pub user: String,
        pub account: String,
        pub partition: String,
        pub qos: String,
        /// Slurm's word.
        pub state: String,
        /// How it ended, as a sentence; `null`: it is not over.
        pub outcome: Option<String>,
        /// What its script gave back and the signal that ended it, `1:0`.
        pub exit: Option<String>,
        pub submitted: Option<Timestamp>,
        /// Since when nothing but the queue kept it from starting.
        pub eligible: Option<Timestamp>,
        pub started: Option<Timestamp>,
        pub ended: Option<Timestamp>,
        /// From submission to start, in seconds.
        pub waited: Option<u64>,
        /// How long it ran, in seconds.
        pub elapsed: u64,
        /// In seconds; `null`: there is none, or it is not known.
        pub time_limit: Option<u64>,
        /// The time limit where it is no number: `unlimited`, `the partition's`.
        pub time_limit_words: Option<String>,
        pub nodes: u32,
        pub nodelist: String,
        pub cpus_requested: u32,
        pub cpus: u32,
        /// On all its nodes together.
        pub memory_requested_mib: Option<u64>,
        pub gpus: Option<u32>,
    }
}

described! {
    /// A step of a job: its script (`batch`), what came with the job (`extern`), or a call of srun.
    pub struct JobStep {
        pub step: String,
        pub name: String,
        pub state: String,
        pub exit: Option<String>,
        pub started: Option<Timestamp>,
        pub ended: Option<Timestamp>,
        pub elapsed: u64,
        pub nodes: u32,
        pub cpus: u32,
        /// Time on cores, in milliseconds.
        pub cpu_ms: Option<u64>,
        pub memory_used_mib: Option<u64>,
    }
}

described! {
    /// How much of what a job had it used. A figure that was not measured is `null`.
    pub struct Efficiency {
        /// Time on cores, of cores times elapsed time.
        pub cpu_percent: Option<u32>,
        pub cpu_ms: Option<u64>,
        /// Cores times elapsed time.
        pub cpu_had_ms: u64,
        /// The largest step's memory, of what was asked for.
        pub memory_percent: Option<u32>,
        pub memory_used_mib: Option<u64>,
        pub memory_requested_mib: Option<u64>,
        /// Elapsed time, of the time limit.
        pub time_percent: Option<u32>,
        /// What follows from it, as sentences.
        pub remarks: Vec<String>,
    }
}

described! {
    /// Jobs that the accounting has: those that are not over first, then the one that ended last.
    pub struct History {
        pub jobs: Vec<PastJob>,
        /// Jobs that ended since then are among them.
        pub since: Timestamp,
        /// Whether these are all that were asked for.
        pub is_whole: bool,
        /// Why the accounting does not answer. The jobs are then those of the queue.
        pub problem: Option<String>,
    }
}

described! {
    /// All there is to know of one job. Its script and its environment are not shown.
    pub struct JobDetail {
        pub id: String,
        /// What the queue has of it now.
        pub queue: Vec<Job>,
        /// What the accounting has of it.
        pub record: Option<PastJob>,
        pub efficiency: Option<Efficiency>,
        pub steps: Vec<JobStep>,
        /// Members of an array or parts of a job, if this is the number of several; the first of them.
        pub members: Vec<PastJob>,
        /// Why the accounting does not answer.
        pub problem: Option<String>,
    }
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

fn exit(record: &kiln_slurm::Record) -> Option<String> {
    record.exit.map(|exit| format!("{}:{}", exit.code, exit.signal))
}

impl From<&kiln_slurm::Record> for PastJob {
    fn from(record: &kiln_slurm::Record) -> PastJob {
        let (time_limit, time_limit_words) = match record.limit {
            TimeLimit::Seconds(seconds) => (Some(seconds), None),
            TimeLimit::Unlimited => (None, Some("unlimited".into())),
            TimeLimit::Partition => (None, Some("the partition's".into())),
            TimeLimit::Unknown => (None, None),
        };
        let waited = record.submitted.zip(record.started).map(|(submitted, started)| {
            u64::try_from(started.duration_since(submitted).as_secs()).unwrap_or(0)
        });
        let outcome = ended::how(record);
        PastJob {
            id: record.job.clone(),
            name: record.name.clone(),
            user: record.user.clone(),
            account: record.account.clone(),
            partition: record.partition.clone(),
            qos: record.qos.clone(),
            state: record.state.clone(),
            exit: exit(record).filter(|_| outcome.is_some()),
            outcome,
            submitted: record.submitted,
            eligible: record.eligible,
            started: record.started,
            ended: record.ended,
            waited,
            elapsed: record.elapsed,
            time_limit,
            time_limit_words,
            nodes: record.nodes,
            nodelist: record.nodelist.clone(),
            cpus_requested: record.cpus_requested,
            cpus: record.cpus,
            memory_requested_mib: record.memory_requested.map(mib),
            gpus: record.gpus,
        }
    }
}

impl From<&kiln_slurm::Record> for JobStep {
    fn from(record: &kiln_slurm::Record) -> JobStep {
        JobStep {
            step: record.step.clone().unwrap_or_default(),
            name: record.name.clone(),
            state: record.state.clone(),
            exit: exit(record),
            started: record.started,
            ended: record.ended,
            elapsed: record.elapsed,
            nodes: record.nodes,
            cpus: record.cpus,
            cpu_ms: record.cpu_time,
            memory_used_mib: record.memory_used.map(mib),
        }
    }
}

/// A job that is only in the queue.
impl From<&Job> for PastJob {
    fn from(job: &Job) -> PastJob {
        let started = job.start.filter(|_| job.waiting.is_none());
        PastJob {
            id: job.id.clone(),
            name: job.name.clone(),
            user: job.user.clone(),
            account: job.account.clone(),
            partition: job.partition.clone(),
            qos: job.qos.clone(),
            state: job.state.clone(),
            outcome: None,
            exit: None,
            submitted: job.submitted,
            eligible: None,
            started,
            ended: None,
            waited: None,
            elapsed: 0,
            time_limit: None,
            time_limit_words: Some(job.time_limit.clone()).filter(|limit| !limit.is_empty()),
            nodes: job.nodes,
            nodelist: job.nodelist.clone(),
            cpus_requested: job.cpus,
            cpus: job.cpus,
            memory_requested_mib: None,
            gpus: None,
        }
    }
}

/// What is measured of shorter jobs says little: starting a program takes as long.
const LONG_ENOUGH: u64 = 60;

/// `None`: it has not begun.
pub fn efficiency(job: &kiln_slurm::PastJob) -> Option<Efficiency> {
    let record = &job.record;
    record.started?;
    let share = job.efficiency();
    let is_over = ended::how(record).is_some();
    let mut remarks = Vec::new();
    if !is_over {
        remarks.push("It still runs: Slurm tells what its steps used when they end.".to_string());
    } else if record.elapsed < LONG_ENOUGH {
        remarks.push("It ran too short a time to judge what it used.".to_string());
    } else {
        if let Some(cpu) = share.cpu.filter(|percent| *percent < 50 && record.cpus > 1) {
            let busy = (u64::from(record.cpus) * u64::from(cpu)).div_ceil(100).max(1);
            remarks.push(format!(
                "Of its {} cores about {busy} were busy: it can ask for fewer, or use them better.",
                record.cpus
            ));
        }
        if let Some(percent) = share.memory.filter(|percent| *percent < 30) {
            remarks.push(format!(
                "It used {percent} % of the memory that it asked for: with less it may start sooner."
            ));
        }
        if let Some(percent) = share.memory.filter(|percent| (90..=100).contains(percent)) {
            remarks.push(format!(
                "It used {percent} % of its memory: a little more, and it would have been ended."
            ));
        }
        if let Some(percent) = share.time.filter(|percent| *percent < 20) {
            remarks.push(format!(
                "It took {percent} % of its time limit: with a shorter one Slurm can fit it in earlier."
            ));
        }
        if remarks.is_empty() && share.cpu.is_some() {
            remarks.push("It used well what it asked for.".to_string());
        }
    }
    Some(Efficiency {
        cpu_percent: share.cpu.filter(|_| is_over),
        cpu_ms: job.cpu_time().filter(|_| is_over),
        cpu_had_ms: record.had(),
        memory_percent: share.memory,
        memory_used_mib: job.memory_used().map(mib),
        memory_requested_mib: record.memory_requested.map(mib),
        time_percent: share.time,
        remarks,
    })
}

/// So many steps of a job are shown.
const MOST_STEPS: usize = 200;

/// What the accounting has of one job, or why it has nothing, beside what the queue has.
pub fn detail(id: &str, queue: Vec<Job>, past: Result<Vec<kiln_slurm::PastJob>, String>) -> JobDetail {
    let (jobs, problem) = match past {
        Ok(jobs) => (jobs, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let own = jobs.iter().find(|job| job.record.job == id);
    JobDetail {
        id: id.into(),
        queue,
        record: own.map(|job| (&job.record).into()),
        efficiency: own.and_then(efficiency),
        steps: own
            .map(|job| job.steps.iter().take(MOST_STEPS).map(JobStep::from).collect())
            .unwrap_or_default(),
        members: if own.is_some() {
            Vec::new()
        } else {
            jobs.iter().map(|job| (&job.record).into()).collect()
        },
        problem,
    }
}
