//! Jobs and their states, as `squeue` and `sacct` print them.

use std::fmt;

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
pub(crate) const SQUEUE_FORMAT: &str = "--format=%i|%T|%k|%r";

/// Reads what `squeue` prints in [`SQUEUE_FORMAT`]; other lines are passed over.
pub fn parse_squeue(text: &str) -> Vec<Job> {
    text.lines().filter_map(parse_job).collect()
}

fn parse_job(line: &str) -> Option<Job> {
    let mut fields = line.splitn(4, '|');
    Some(Job {
        // Members of arrays have no plain number; Kiln submits none.
        id: fields.next()?.trim().parse().ok()?,
        state: JobState::parse(fields.next()?),
        comment: fields.next()?.trim().to_string(),
        reason: fields.next()?.trim().to_string(),
    })
}

/// Reads what `sacct --allocations --noheader --parsable2 --format=State` prints for one job. `None`: it is not known.
pub fn parse_sacct(text: &str) -> Option<JobState> {
    text.lines().next().map(JobState::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeue_is_understood() {
        let jobs = parse_squeue(
            "17|CONFIGURING|kiln-rollout-1-n-0|None\n18_3|RUNNING||None\nslurm_load_jobs error: x\n",
        );
        assert_eq!(jobs.len(), 1);
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
