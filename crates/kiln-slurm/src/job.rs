//! Jobs and their states, as `squeue` and `sacct` print them.

use std::fmt;

use jiff::Timestamp;
use kiln_spec::hostlist;
use serde::Serialize;

use crate::node::moment;
use crate::rows::{rows, squeue_format};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: u64,
    pub state: JobState,
    /// Where Kiln writes what the job is for.
    pub comment: String,
    /// Slurm's word for why it waits or how it ended.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    Pending,
    /// Its node is being rebooted.
    Configuring,
    Running,
    Completed,
    Cancelled,
    NodeFail,
    /// Slurm took its node for another job.
    Preempted,
    /// Its command did not succeed.
    Failed,
    TimedOut,
    /// Some other end, with Slurm's word for it: `OUT_OF_MEMORY`, `DEADLINE`, ...
    Other(String),
}

impl JobState {
    /// Reads the long forms that squeue and sacct print.
    pub fn parse(word: &str) -> JobState {
        // sacct says by whom: `CANCELLED by 0`.
        match word.split_whitespace().next().unwrap_or_default() {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" => JobState::Pending,
            "CONFIGURING" => JobState::Configuring,
            "RUNNING" | "COMPLETING" | "SUSPENDED" | "STAGE_OUT" | "SIGNALING" | "STOPPED" => {
                JobState::Running
            }
            "COMPLETED" => JobState::Completed,
            "CANCELLED" | "REVOKED" => JobState::Cancelled,
            "NODE_FAIL" | "BOOT_FAIL" => JobState::NodeFail,
            "PREEMPTED" => JobState::Preempted,
            "FAILED" => JobState::Failed,
            "TIMEOUT" => JobState::TimedOut,
            other => JobState::Other(other.to_string()),
        }
    }

    pub fn is_over(&self) -> bool {
        !matches!(self, JobState::Pending | JobState::Configuring | JobState::Running)
    }
}

/// Slurm's word.
impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobState::Pending => "PENDING",
            JobState::Configuring => "CONFIGURING",
            JobState::Running => "RUNNING",
            JobState::Completed => "COMPLETED",
            JobState::Cancelled => "CANCELLED",
            JobState::NodeFail => "NODE_FAIL",
            JobState::Preempted => "PREEMPTED",
            JobState::Failed => "FAILED",
            JobState::TimedOut => "TIMEOUT",
            JobState::Other(word) => word,
        })
    }
}

/// Of `squeue`: id, state, comment and reason.
pub(crate) const FIELDS: [&str; 4] = ["%i", "%T", "%k", "%r"];

/// Reads what `squeue` prints.
pub fn parse_squeue(text: &str, delimiter: &str) -> Vec<Job> {
    rows(text, delimiter).into_iter().filter_map(job).collect()
}

fn job([id, state, comment, reason]: [&str; FIELDS.len()]) -> Option<Job> {
    Some(Job {
        // Members of arrays have no plain number; Kiln submits none.
        id: id.parse().ok()?,
        state: JobState::parse(state),
        comment: comment.into(),
        reason: reason.into(),
    })
}

/// Reads what `sacct --allocations --noheader --parsable2 --format=State` prints for one job. `None`: it is not known.
pub fn parse_sacct(text: &str) -> Option<JobState> {
    text.lines().next().map(JobState::parse)
}

/// A job that has nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct JobOnNodes {
    /// As users know it: `17`, or `17_3` of an array.
    pub id: String,
    pub user: String,
    pub partition: String,
    /// When Slurm ends it at the latest; `None`: it may run for as long as it likes.
    pub until: Option<Timestamp>,
    pub nodes: Vec<String>,
}

const ON_NODES: [&str; 5] = ["%i", "%u", "%P", "%e", "%N"];

impl JobOnNodes {
    /// What `squeue` is asked, for these nodes. It prints times in the zone of its environment, which must be UTC.
    pub fn squeue(nodes: &str, delimiter: &str) -> Vec<String> {
        let states = "--states=RUNNING,CONFIGURING,COMPLETING,SUSPENDED,STOPPED";
        let format = squeue_format(&ON_NODES, delimiter);
        // By number: else Slurm's order of priorities, which differs from one question to the next.
        let words = ["squeue", "--all", "--noheader", "--sort=i", states, &format].map(String::from);
        words.into_iter().chain([format!("--nodelist={nodes}")]).collect()
    }

    /// Reads what `squeue` answered.
    pub fn parse(text: &str, delimiter: &str) -> Vec<JobOnNodes> {
        rows(text, delimiter).into_iter().filter_map(JobOnNodes::from_row).collect()
    }

    fn from_row([id, user, partition, until, nodes]: [&str; ON_NODES.len()]) -> Option<JobOnNodes> {
        let (until, nodes) = (moment(until), hostlist::expand(nodes).ok()?);
        Some(JobOnNodes { id: id.into(), user: user.into(), partition: partition.into(), until, nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_on_nodes_are_read() {
        let jobs = JobOnNodes::parse(
            "squeue: error: x\n17|demo|extra|2026-11-16T05:10:00|extra-[0-1]\n18_3|demo|a|NONE|extra-1\n",
            "|",
        );
        assert_eq!(jobs.len(), 2, "{jobs:?}");
        assert_eq!(jobs[0].nodes, ["extra-0", "extra-1"]);
        assert_eq!(jobs[0].until, Some("2026-11-16T05:10:00Z".parse().unwrap()));
        assert_eq!((jobs[1].id.as_str(), jobs[1].until), ("18_3", None));
    }

    #[test]
    fn squeue_is_understood() {
        let jobs = parse_squeue(
            "slurm_load_jobs error: x\n17|x9|CONFIGURING|x9|kiln-rollout-1-n-0|x9|None\n18_3|x9|RUNNING|x9||x9|None\n\
             19|x9|PENDING|x9|a\n20|COMPLETED|kiln-rollout-1-n-1|None\nb|x9|Priority\n",
            "|x9|",
        );
        // The comment of one is its user's text, and no other job.
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [17, 19]);
        assert_eq!(jobs[1].reason, "Priority");
        assert_eq!((jobs[0].id, &jobs[0].state), (17, &JobState::Configuring));
        assert_eq!(jobs[0].comment, "kiln-rollout-1-n-0");
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(parse_sacct("CANCELLED by 0\n"), Some(JobState::Cancelled));
        assert_eq!(parse_sacct(""), None);
        assert_eq!(JobState::parse("TIMEOUT"), JobState::TimedOut);
        assert_eq!(JobState::parse("OUT_OF_MEMORY"), JobState::Other("OUT_OF_MEMORY".into()));
        assert!(!JobState::parse("COMPLETING").is_over());
    }

    #[test]
    fn states_are_shown_in_slurms_words() {
        for word in ["PENDING", "RUNNING", "NODE_FAIL", "FAILED", "TIMEOUT", "PREEMPTED", "DEADLINE"] {
            assert_eq!(JobState::parse(word).to_string(), word);
        }
    }
}
