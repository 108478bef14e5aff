//! The queue, for people: every job that waits or runs, with what `squeue` says of it.

use jiff::Timestamp;

use crate::node::moment;
use crate::rows::rows;

/// A job that is not over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuedJob {
    /// As users know it: `17`, `17_3` of an array, `17_[4-9]` for all members that wait.
    pub id: String,
    pub name: String,
    pub user: String,
    pub account: String,
    pub partition: String,
    pub qos: String,
    /// Slurm's word, `PENDING`.
    pub state: String,
    /// Slurm's word for why it waits.
    pub reason: String,
    pub priority: u64,
    pub nodes: u32,
    pub cpus: u32,
    pub submitted: Option<Timestamp>,
    /// When it began, or when Slurm expects it to begin.
    pub start: Option<Timestamp>,
    /// How long it may run, as Slurm writes times.
    pub time_limit: String,
    /// Where it runs, as a hostlist.
    pub nodelist: String,
    /// What it waits for, as Slurm writes dependencies.
    pub dependency: String,
}

/// Of `squeue`.
pub(crate) const FIELDS: [&str; 16] =
    ["%i", "%u", "%a", "%P", "%q", "%T", "%Q", "%D", "%C", "%V", "%S", "%l", "%N", "%E", "%r", "%j"];

impl QueuedJob {
    pub fn is_pending(&self) -> bool {
        self.state == "PENDING"
    }

    /// Reads what `squeue` prints.
    pub fn parse(text: &str, delimiter: &str) -> Vec<QueuedJob> {
        rows(text, delimiter).into_iter().map(QueuedJob::from_row).collect()
    }

    fn from_row(fields: [&str; FIELDS.len()]) -> QueuedJob {
        let [
            id,
            user,
            account,
            partition,
            qos,
            state,
            priority,
            nodes,
            cpus,
            submitted,
            start,
            limit,
            nodelist,
            dependency,
            reason,
            name,
        ] = fields;
        let text = |field: &str| {
            if matches!(field, "(null)" | "N/A") { String::new() } else { field.to_string() }
        };
        QueuedJob {
            id: id.into(),
            name: name.into(),
            user: text(user),
            account: text(account),
            partition: text(partition),
            qos: text(qos),
            state: text(state),
            reason: text(reason),
            priority: priority.parse().unwrap_or(0),
            nodes: count(nodes),
            cpus: count(cpus),
            submitted: moment(submitted),
            start: moment(start),
            time_limit: text(limit),
            nodelist: text(nodelist),
            dependency: text(dependency),
        }
    }
}

/// `4`, `4-8` where a job takes what it gets, `2K` where Slurm shortens it.
fn count(text: &str) -> u32 {
    let first = text.split('-').next().unwrap_or_default();
    let (digits, factor) = match first.strip_suffix('K') {
        Some(digits) => (digits, 1024.0),
        None => (first, 1.0),
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    digits.parse::<f64>().map_or(0, |number| (number * factor) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIMITER: &str = "|x9|";

    fn line(fields: [&str; FIELDS.len()]) -> String {
        fields.join(DELIMITER)
    }

    #[test]
    fn a_job_that_waits_is_read() {
        let times = ["2026-11-16T05:10:00", "N/A", "1:00:00"];
        let [submit, start, limit] = times;
        let line = line([
            "18_[3-9]",
            "ann",
            "physics",
            "main",
            "normal",
            "PENDING",
            "4294",
            "2",
            "8",
            submit,
            start,
            limit,
            "",
            "(null)",
            "Resources",
            "a|b",
        ]);
        let jobs = QueuedJob::parse(&format!("squeue: error: x\n{line}\n"), DELIMITER);
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        let job = &jobs[0];
        assert_eq!((job.id.as_str(), job.name.as_str()), ("18_[3-9]", "a|b"));
        assert_eq!((job.nodes, job.cpus, job.priority), (2, 8, 4294));
        assert_eq!(job.submitted, Some("2026-11-16T05:10:00Z".parse().unwrap()));
        assert_eq!((job.start, job.dependency.as_str(), job.reason.as_str()), (None, "", "Resources"));
        assert!(job.is_pending());
    }

    #[test]
    fn counts_are_read_as_slurm_shortens_them() {
        assert_eq!(["4", "4-8", "2K", "1.5K", ""].map(count), [4, 4, 2048, 1536, 0]);
    }
}
