//! Submitting, watching and cancelling jobs.

use super::Slurm;
use crate::error::{Error, Result};
use crate::job::{self, Job, JobState, parse_sacct, parse_squeue};
use crate::queue::{self, QueuedJob};
use crate::rows::{delimiter, squeue_format};

/// One job for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub name: String,
    pub node: String,
    pub partition: String,
    pub reboot: bool,
    /// How long it may run, as Slurm writes times. Sites may refuse jobs that do not say it.
    pub time: String,
    pub license: Option<String>,
    /// The administrator's own.
    pub options: Vec<String>,
    /// Who submits it, if not Slurm's own user.
    pub user: Option<String>,
    /// Finds the job again when its number was lost.
    pub comment: String,
    /// A shell script.
    pub script: String,
}

impl Submission {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "--parsable".to_string(),
            format!("--job-name={}", self.name),
            format!("--partition={}", self.partition),
            "--nodes=1".into(),
            "--exclusive".into(),
            "--no-requeue".into(),
            "--output=/dev/null".into(),
            "--chdir=/".into(),
            format!("--time={}", self.time),
        ];
        arguments.extend(self.license.as_ref().map(|license| format!("--licenses={license}")));
        arguments.extend(self.options.iter().cloned());
        // Behind the administrator's options, which must not change these.
        arguments.push(format!("--nodelist={}", self.node));
        if self.reboot {
            arguments.push("--reboot".into());
        }
        arguments.push(format!("--comment={}", self.comment));
        arguments.push(format!("--wrap={}", self.script));
        arguments
    }
}

impl Slurm {
    pub async fn submit(&self, submission: &Submission) -> Result<u64> {
        let arguments = submission.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let answer = match &submission.user {
            None => self.call("sbatch", &arguments).await?,
            Some(user) => self.call_as(user, "sbatch", &arguments).await?,
        };
        // `ID` or `ID;CLUSTER`.
        let id = answer.trim().split(';').next().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Error::output("sbatch", &answer))
    }

    /// All jobs of these partitions that slurmctld still knows; it forgets one `MinJobAge` after its end.
    pub async fn jobs(&self, partitions: &[String]) -> Result<Vec<Job>> {
        let partitions = format!("--partition={}", partitions.join(","));
        let delimiter = delimiter();
        let format = squeue_format(&job::FIELDS, &delimiter);
        let arguments = ["--all", "--noheader", "--states=all", &partitions, &format];
        Ok(parse_squeue(&self.call("squeue", &arguments).await?, &delimiter))
    }

    /// Every job that is not over. Members of an array that wait are one.
    pub async fn queue(&self) -> Result<Vec<QueuedJob>> {
        let delimiter = delimiter();
        let format = squeue_format(&queue::FIELDS, &delimiter);
        Ok(QueuedJob::parse(&self.call("squeue", &["--all", "--noheader", &format]).await?, &delimiter))
    }

    /// How a job ended that slurmctld has forgotten; `None` where the accounting does not know it either.
    pub async fn past_job(&self, id: u64) -> Result<Option<JobState>> {
        let id = format!("--jobs={id}");
        let arguments = ["--allocations", "--noheader", "--parsable2", &id, "--format=State"];
        match self.call("sacct", &arguments).await {
            Ok(text) => Ok(parse_sacct(&text)),
            Err(Error::NoAccounting { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Only while it waits: a job that has begun is left alone.
    pub async fn cancel_pending(&self, job: u64) -> Result<()> {
        self.call("scancel", &["--state=PENDING", &job.to_string()]).await.map(drop)
    }

    pub async fn cancel(&self, job: u64) -> Result<()> {
        self.call("scancel", &[&job.to_string()]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_own_arguments_come_last() {
        let submission = Submission {
            name: "rebuild-n-0".into(),
            node: "n-0".into(),
            partition: "rebuild".into(),
            reboot: true,
            time: "00:30:00".into(),
            license: Some("rebuild".into()),
            options: vec!["--time=5".into(), "--nodelist=other".into()],
            user: None,
            comment: "c".into(),
            script: "sleep 5".into(),
        };
        let arguments = submission.arguments().join(" ");
        assert!(arguments.ends_with("--nodelist=other --nodelist=n-0 --reboot --comment=c --wrap=sleep 5"));
        assert!(arguments.contains("--licenses=rebuild"));
        // What an administrator says of the time comes later, and holds.
        assert!(arguments.find("--time=00:30:00") < arguments.find("--time=5"));
    }
}
