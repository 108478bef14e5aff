//! What can go wrong with Slurm's commands, sorted once.

use std::process::ExitStatus;
use std::time::Duration;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// slurmctld or slurmdbd does not answer. Nothing is known of what was asked; it can be asked again later.
    #[error("{program}: {message}")]
    Unreachable { program: String, message: String },
    /// The cluster has no accounting to ask.
    #[error("{program}: {message}")]
    NoAccounting { program: String, message: String },
    /// Slurm takes no more jobs of this user just now: a limit on how many may be queued is reached.
    #[error("{program}: {message}")]
    Limit { program: String, message: String },
    /// Slurm answered, and did not do what was asked.
    #[error("{program}: {message}")]
    Refused { program: String, message: String },
    #[error("{program} printed {output:?}, which Kiln does not understand")]
    Output { program: String, output: String },
    #[error("cannot run {program}")]
    NotRun { program: String, source: std::io::Error },
    #[error("{list:?} is not a list of nodes")]
    Hostlist { list: String, source: kiln_spec::hostlist::HostlistError },
}

/// Parts of the messages, in lower case, of all releases about a daemon that cannot be talked to.
const UNREACHABLE: [&str; 9] = [
    "unable to contact slurm",
    "timed out",
    "connection",
    "communication",
    "temporarily",
    "message send failure",
    "message receive failure",
    "zero bytes were transmitted or received",
    "controller in standby mode",
];
/// The same, about a limit that keeps a job from being queued. The last one also stands for limits of size and time, which an
/// administrator can change while the job is put off.
const LIMIT: [&str; 4] =
    ["submitjob", "maxjobcount limit reached", "job queue full", "violates accounting/qos policy"];
const NO_ACCOUNTING: &str = "accounting storage is disabled";

/// Whether these words of a command are about a daemon that cannot be talked to.
pub(crate) fn is_unreachable(said: &str) -> bool {
    let said = said.to_lowercase();
    UNREACHABLE.iter().any(|sign| said.contains(sign))
}

impl Error {
    /// slurmctld or slurmdbd did not answer: it can be asked again later.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }

    /// Of a command that ended with something else than success. scontrol says on standard output what it did not find.
    pub(crate) fn from_exit(program: &str, status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Error {
        let (stdout, stderr) = (String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
        let said = stderr.trim().lines().collect::<Vec<_>>().join("; ");
        // Not sorted by: names of partitions and nodes are in it.
        let lower = said.to_lowercase();
        let last = || stdout.trim().lines().last().map(String::from);
        let message = Some(said).filter(|said| !said.is_empty()).or_else(last);
        let (program, message) = (program.to_string(), message.unwrap_or_else(|| status.to_string()));
        if is_unreachable(&lower) {
            Error::Unreachable { program, message }
        } else if lower.contains(NO_ACCOUNTING) {
            Error::NoAccounting { program, message }
        } else if LIMIT.iter().any(|sign| lower.contains(sign)) {
            Error::Limit { program, message }
        } else {
            Error::Refused { program, message }
        }
    }

    pub(crate) fn no_answer(program: &str, waited: Duration) -> Error {
        let message = format!("no answer within {} s", waited.as_secs());
        Error::Unreachable { program: program.into(), message }
    }

    pub(crate) fn output(program: &str, output: &str) -> Error {
        Error::Output { program: program.into(), output: output.trim().into() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn messages_are_sorted() {
        let rows = [
            ("slurm_load_node error: Unable to contact slurm controller (connect failure)", "unreachable"),
            (
                "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
                "unreachable",
            ),
            ("sacct: error: Problem talking to the database: Connection refused", "unreachable"),
            ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", "unreachable"),
            ("scontrol: error: Zero Bytes were transmitted or received", "unreachable"),
            ("Slurm accounting storage is disabled", "no accounting"),
            (
                "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates \
                 accounting/QOS policy (job submit limit, user's size and/or time limits)",
                "limit",
            ),
            ("sbatch: error: QOSMaxSubmitJobPerUserLimit", "limit"),
            ("sbatch: error: Batch job submission failed: MaxJobCount limit reached", "limit"),
            ("sbatch: error: Batch job submission failed: Invalid partition name specified", "refused"),
            ("", "refused"),
        ];
        for (stderr, expected) in rows {
            let sorted = match Error::from_exit("x", ExitStatus::from_raw(256), b"", stderr.as_bytes()) {
                Error::Unreachable { .. } => "unreachable",
                Error::NoAccounting { .. } => "no accounting",
                Error::Limit { .. } => "limit",
                Error::Refused { .. } => "refused",
                other => panic!("{other}"),
            };
            assert_eq!(sorted, expected, "{stderr}");
        }
    }

    #[test]
    fn a_silent_failure_has_its_exit_code() {
        let error = Error::from_exit("scontrol", ExitStatus::from_raw(256), b"", b"\n");
        assert_eq!(error.to_string(), "scontrol: exit status: 1");
    }

    #[test]
    fn what_is_said_on_standard_output_alone_is_told() {
        let error =
            Error::from_exit("scontrol", ExitStatus::from_raw(256), b"Partition connection not found\n", b"");
        assert_eq!(error.to_string(), "scontrol: Partition connection not found");
        assert!(matches!(error, Error::Refused { .. }));
    }
}
