//! The jobs that taking the cluster down would meet.

use kiln_slurm::{JobState, rows};
use serde::Serialize;

/// Of `squeue`.
pub const FIELDS: [&str; 6] = ["%i", "%T", "%u", "%e", "%N", "%j"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuedJob {
    /// `12`, or `12_[3-7]` of an array.
    pub id: String,
    pub user: String,
    pub name: String,
    pub state: String,
    /// When its time limit ends it, by the control node's clock; `N/A` without a limit.
    pub ends: String,
    pub nodes: String,
}

/// Those that have begun and those that wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Queue {
    pub running: Vec<QueuedJob>,
    pub waiting: Vec<QueuedJob>,
}

impl Queue {
    /// Reads what `squeue` prints of [`FIELDS`].
    pub fn parse(text: &str, delimiter: &str) -> Queue {
        let jobs = rows(text, delimiter).into_iter().map(job);
        let (waiting, running) = jobs.partition(|job| JobState::parse(&job.state) == JobState::Pending);
        Queue { running, waiting }
    }
}

fn job(fields: [&str; FIELDS.len()]) -> QueuedJob {
    let [id, state, user, ends, nodes, name] = fields.map(String::from);
    // It is shown on a terminal.
    QueuedJob { id, state, user, ends, nodes, name: name.replace(char::is_control, " ") }
}

impl QueuedJob {
    /// For a job that runs.
    pub fn line(&self) -> String {
        let ends = match self.ends.as_str() {
            "N/A" | "NONE" | "" => "without a time limit".to_string(),
            time => format!("ends by {time}"),
        };
        format!("job {} of {} ({}) on {}, {ends}", self.id, self.user, self.name, self.nodes)
    }

    /// For a job that waits.
    pub fn waiting_line(&self) -> String {
        format!("job {} of {} ({})", self.id, self.user, self.name)
    }
}

/// What is waited for, in one line.
pub fn awaited(running: &[QueuedJob]) -> String {
    let last = running.iter().map(|job| job.ends.as_str()).max().unwrap_or_default();
    let jobs = match running {
        [one] => format!("job {} of {}", one.id, one.user),
        many => format!("{} jobs", many.len()),
    };
    // Letters come after digits: a job without a limit decides.
    if last.starts_with(|c: char| c.is_ascii_digit()) {
        format!("waiting for {jobs}, until {last} at the latest")
    } else {
        format!("waiting for {jobs}, without a time limit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        let text = "slurm_load_jobs error: no\n7+RUNNING+ann+2026-11-16T10:00:00+n-[0-1]+a|b\n\
                    8_[1-3]+PENDING+bob+N/A++sweep\n10|RUNNING|root|N/A|n-3|x\n9+COMPLETING+ann+2026-11-16T12:30:00+n-2+x\n";
        Queue::parse(&text.replace('+', "|x9|"), "|x9|")
    }

    #[test]
    fn what_runs_and_what_waits_is_told_apart() {
        let queue = queue();
        let ids = |jobs: &[QueuedJob]| jobs.iter().map(|job| job.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&queue.running), ["7", "9"]);
        assert_eq!(ids(&queue.waiting), ["8_[1-3]"]);
        assert_eq!(queue.running[0].line(), "job 7 of ann (a|b) on n-[0-1], ends by 2026-11-16T10:00:00");
        assert_eq!(queue.waiting[0].waiting_line(), "job 8_[1-3] of bob (sweep 10|RUNNING|root|N/A|n-3|x)");
    }

    #[test]
    fn the_last_end_is_told() {
        let queue = queue();
        assert_eq!(awaited(&queue.running), "waiting for 2 jobs, until 2026-11-16T12:30:00 at the latest");
        assert_eq!(
            awaited(&queue.running[..1]),
            "waiting for job 7 of ann, until 2026-11-16T10:00:00 at the latest"
        );
        let endless = QueuedJob { ends: "N/A".into(), ..queue.running[0].clone() };
        let both = [queue.running[1].clone(), endless];
        assert_eq!(awaited(&both), "waiting for 2 jobs, without a time limit");
    }
}
