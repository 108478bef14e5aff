//! Slurm's commands, as Kiln needs them. Arguments only, never a shell; programs by absolute path.

mod history;
mod jobs;
mod licenses;
mod limits;
mod nodes;
mod statistics;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use crate::error::{Error, Result};
use crate::node::SLURM_USER;
use crate::release::Release;

pub use history::History;
pub use jobs::Submission;
pub use licenses::LicenseUse;

#[derive(Debug, Clone)]
pub struct Slurm {
    programs: PathBuf,
    /// Who Slurm's commands are run as, if not as whoever calls them.
    user: Option<&'static str>,
}

/// How long a command may take, and how much of what it prints is read.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    time: Duration,
    bytes: u64,
}

/// slurmctld itself gives up after `MessageTimeout`, several times over.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Default for Slurm {
    /// A control node's, asked by Slurm's own user, who may do everything. It takes root or CAP_SETUID and CAP_SETGID.
    fn default() -> Self {
        Slurm { user: Some(SLURM_USER), ..Slurm::at("/usr/bin") }
    }
}

impl Slurm {
    /// With the programs of this directory.
    pub fn at(programs: impl Into<PathBuf>) -> Self {
        Slurm { programs: programs.into(), user: None }
    }

    pub async fn release(&self) -> Result<Release> {
        let text = self.call("scontrol", &["--version"]).await?;
        let version = text.split_whitespace().last().unwrap_or_default();
        version.parse().map_err(|_| Error::output("scontrol", &text))
    }

    /// Whether a user may have nodes rebooted, as Slurm's accounting has it.
    pub async fn is_operator(&self, user: &str) -> Result<bool> {
        let name = format!("name={user}");
        let arguments = ["--noheader", "--parsable2", "show", "user", &name, "format=AdminLevel"];
        let level = self.call("sacctmgr", &arguments).await?;
        Ok(matches!(level.trim(), "Operator" | "Administrator"))
    }

    async fn call(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let path = self.programs.join(program);
        match self.user {
            None => run(program, Command::new(path), arguments).await,
            Some(user) => {
                let mut command = self.setpriv(user, user);
                command.arg("--clear-groups").arg("--").arg(path);
                run(program, command, arguments).await
            }
        }
    }

    /// Ends the command when its time is over; what it prints beyond the bounds is not read. And whether that was all.
    async fn call_within(&self, program: &str, arguments: &[&str], bounds: Bounds) -> Result<(String, bool)> {
        let path = self.programs.join(program);
        let mut command = match self.user {
            None => Command::new(path),
            Some(user) => {
                let mut command = self.setpriv(user, user);
                // Only its own user can end it.
                let seconds = bounds.time.as_secs().to_string();
                command.arg("--clear-groups").arg("--").arg(self.programs.join("timeout"));
                command.args(["--kill-after=5", &seconds]).arg(path);
                command
            }
        };
        prepare(&mut command, arguments);
        let failed = |source| Error::NotRun { program: program.into(), source };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let reading = async {
            let (text, said) = tokio::join!(read(stdout, bounds.bytes), read(stderr, MOST_SAID));
            let (text, said) = (text?, said?);
            // One that is not read to its end ends by itself when it writes more.
            if text.len() as u64 > bounds.bytes {
                return Ok((None, text, said));
            }
            Ok((Some(child.wait().await?), text, said))
        };
        let late = || Error::no_answer(program, bounds.time);
        let (status, mut text, said) = match tokio::time::timeout(bounds.time + GRACE, reading).await {
            Ok(outcome) => outcome.map_err(failed)?,
            Err(_) => return Err(late()),
        };
        match status {
            Some(status) if status.code() == Some(TIMED_OUT) => return Err(late()),
            Some(status) if !status.success() => return Err(Error::from_exit(program, status, &text, &said)),
            _ => {}
        }
        text.truncate(usize::try_from(bounds.bytes).unwrap_or(usize::MAX));
        Ok((String::from_utf8_lossy(&text).into_owned(), status.is_some()))
    }

    /// As a user of the cluster, with the user's own groups and environment.
    async fn call_as(&self, user: &str, program: &str, arguments: &[&str]) -> Result<String> {
        let group = run("id", Command::new(self.programs.join("id")), &["--group", user]).await?;
        let mut command = self.setpriv(user, group.trim());
        command.args(["--init-groups", "--reset-env", "--"]).arg(self.programs.join(program));
        run(program, command, arguments).await
    }

    /// What it runs can no longer change its user.
    fn setpriv(&self, user: &str, group: &str) -> Command {
        let mut command = Command::new(self.programs.join("setpriv"));
        command
            .arg(format!("--reuid={user}"))
            .arg(format!("--regid={group}"))
            .args(["--inh-caps=-all", "--ambient-caps=-all"]);
        command
    }
}

/// What `timeout` exits with when the time was over.
const TIMED_OUT: i32 = 124;
/// How long it is waited for `timeout` itself.
const GRACE: Duration = Duration::from_secs(10);
/// How much of a command's complaints is read.
const MOST_SAID: u64 = 64 << 10;

/// One byte more than `most` shows that there was more.
async fn read(stream: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(most + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn prepare(command: &mut Command, arguments: &[&str]) {
    command
        .args(arguments)
        .stdin(Stdio::null())
        .current_dir("/")
        .kill_on_drop(true)
        // Jobs inherit this environment, and times are printed in its zone.
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("TZ", "UTC");
    if let Some(conf) = std::env::var_os("SLURM_CONF") {
        command.env("SLURM_CONF", conf);
    }
}

async fn run(program: &str, mut command: Command, arguments: &[&str]) -> Result<String> {
    prepare(&mut command, arguments);
    let output = match tokio::time::timeout(TIMEOUT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(source)) => return Err(Error::NotRun { program: program.into(), source }),
        Err(_) => return Err(Error::no_answer(program, TIMEOUT)),
    };
    if !output.status.success() {
        return Err(Error::from_exit(program, output.status, &output.stdout, &output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
