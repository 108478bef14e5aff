//! Slurm's commands, as the daemon needs them. Arguments only, never a shell; programs by absolute path.

mod jobs;
mod nodes;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use kiln_slurm::Release;
use tokio::process::Command;

use crate::error::{Error, Result};

pub use jobs::{Job, JobState, Submission};
pub use nodes::Node;

/// What Kiln writes before a reason, to know its own drains from an administrator's.
pub const REASON: &str = "kiln: ";

/// Slurm works out a node's boot time from whole seconds of clock and uptime, up to this much too early. A node that
/// is there so soon after the request has, to Slurm, not been booted for it.
pub const ROUNDING: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Slurm {
    programs: PathBuf,
}

/// slurmctld itself gives up after `MessageTimeout`, several times over.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Default for Slurm {
    fn default() -> Self {
        Slurm::at("/usr/bin")
    }
}

impl Slurm {
    /// With the programs of this directory.
    pub fn at(programs: impl Into<PathBuf>) -> Self {
        Slurm { programs: programs.into() }
    }

    pub async fn release(&self) -> Result<Release> {
        let text = self.call("scontrol", &["--version"]).await?;
        let version = text.split_whitespace().last().unwrap_or_default();
        version.parse().map_err(|e| failure("scontrol", format!("{e}")))
    }

    /// Whether a user may have nodes rebooted, as Slurm's accounting has it.
    pub async fn is_operator(&self, user: &str) -> Result<bool> {
        let name = format!("name={user}");
        let arguments = ["--noheader", "--parsable2", "show", "user", &name, "format=AdminLevel"];
        let level = self.call("sacctmgr", &arguments).await?;
        Ok(matches!(level.trim(), "Operator" | "Administrator"))
    }

    async fn call(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.programs.join(program));
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
        let output = match tokio::time::timeout(TIMEOUT, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(failure(program, format!("cannot be run: {error}"))),
            Err(_) => return Err(failure(program, "no answer".into())),
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().collect::<Vec<_>>().join("; ");
            return Err(failure(program, if said.is_empty() { output.status.to_string() } else { said }));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn failure(program: &str, message: String) -> Error {
    Error::Slurm { program: program.into(), message }
}

/// `Key=value` of a line that `--oneliner` printed.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}
