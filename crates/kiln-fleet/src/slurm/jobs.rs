//! Jobs: submitting, watching, cancelling.

use super::{Slurm, failure};
use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: u64,
    pub state: JobState,
    /// Kiln's own mark.
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
    /// With Slurm's word: `FAILED`, `TIMEOUT`, ...
    Failed(String),
}

impl JobState {
    /// Of the long forms that squeue and sacct print.
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
            other => JobState::Failed(other.to_string()),
        }
    }

    pub fn is_over(&self) -> bool {
        !matches!(self, JobState::Pending | JobState::Configuring | JobState::Running)
    }
}

/// One job for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub name: String,
    pub node: String,
    pub partition: String,
    pub reboot: bool,
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

const FORMAT: &str = "--format=%i|%T|%k|%r";

impl Slurm {
    pub async fn submit(&self, submission: &Submission) -> Result<u64> {
        let arguments = submission.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let answer = match &submission.user {
            None => self.call("sbatch", &arguments).await?,
            Some(user) => {
                let user = format!("--user={user}");
                let sbatch = self.programs.join("sbatch").display().to_string();
                let through = ["--non-interactive", &user, "--", &sbatch];
                self.call("sudo", &[&through, arguments.as_slice()].concat()).await?
            }
        };
        // `ID` or `ID;CLUSTER`.
        let id = answer.trim().split(';').next().and_then(|id| id.parse().ok());
        id.ok_or_else(|| failure("sbatch", format!("unexpected answer {:?}", answer.trim())))
    }

    /// All jobs of these partitions that slurmctld still knows; it forgets one `MinJobAge` after its end.
    pub async fn jobs(&self, partitions: &[String]) -> Result<Vec<Job>> {
        let partitions = format!("--partition={}", partitions.join(","));
        let text = self.call("squeue", &["--all", "--noheader", "--states=all", &partitions, FORMAT]).await?;
        Ok(text.lines().filter_map(parse_line).collect())
    }

    /// How a job ended that slurmctld has forgotten; `None` where the accounting does not know it either.
    pub async fn past_job(&self, id: u64) -> Result<Option<JobState>> {
        let id = format!("--jobs={id}");
        let arguments = ["--allocations", "--noheader", "--parsable2", &id, "--format=State"];
        match self.call("sacct", &arguments).await {
            Ok(text) => Ok(text.lines().next().map(JobState::parse)),
            // A cluster without accounting.
            Err(Error::Slurm { message, .. }) if message.contains("disabled") => Ok(None),
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

fn parse_line(line: &str) -> Option<Job> {
    let mut fields = line.splitn(4, '|');
    Some(Job {
        // Of an array only the job itself is Kiln's.
        id: fields.next()?.trim().parse().ok()?,
        state: JobState::parse(fields.next()?),
        comment: fields.next()?.trim().to_string(),
        reason: fields.next()?.trim().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeue_is_understood() {
        let job = parse_line("17|CONFIGURING|kiln-rollout-1-n-0|None").unwrap();
        assert_eq!((job.id, job.state), (17, JobState::Configuring));
        assert_eq!(job.comment, "kiln-rollout-1-n-0");
        assert_eq!(parse_line("slurm_load_jobs error: x"), None);
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(JobState::parse("CANCELLED by 0"), JobState::Cancelled);
        assert_eq!(JobState::parse("TIMEOUT"), JobState::Failed("TIMEOUT".into()));
        assert!(!JobState::parse("COMPLETING").is_over());
    }

    #[test]
    fn the_nodes_own_arguments_come_last() {
        let submission = Submission {
            name: "rebuild-n-0".into(),
            node: "n-0".into(),
            partition: "rebuild".into(),
            reboot: true,
            license: Some("rebuild".into()),
            options: vec!["--nodelist=other".into()],
            user: None,
            comment: "c".into(),
            script: "sleep 5".into(),
        };
        let arguments = submission.arguments().join(" ");
        assert!(arguments.ends_with("--nodelist=other --nodelist=n-0 --reboot --comment=c --wrap=sleep 5"));
        assert!(arguments.contains("--licenses=rebuild"));
    }
}
