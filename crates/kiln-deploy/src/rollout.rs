//! Rollouts as seen from the deploy host. They live in kilnd's store on the control node; here they are asked for, over
//! SSH, as Slurm's own user, and watched.

use std::time::Duration;

use kiln_fleet::{Options, RolloutId, RolloutReport};
use kiln_ssh::{Host, Ssh};
use serde::de::DeserializeOwned;

use crate::deployment::Deployment;
use crate::error::{Error, Result};

/// The control node's `kiln`, as the user who owns the store.
const FLEET: [&str; 7] = ["runuser", "-u", "slurm", "--", "kiln", "--json", "fleet"];
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub struct Rollouts<'d> {
    deployment: &'d Deployment<'d>,
    ssh: Ssh,
    control: Host,
}

impl Deployment<'_> {
    pub async fn rollouts(&self) -> Result<Rollouts<'_>> {
        let observed = self.observe().await?;
        let control = self.hosts(&observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        Ok(Rollouts { deployment: self, ssh: self.ssh()?, control })
    }
}

impl Rollouts<'_> {
    pub async fn start(&self, options: &Options) -> Result<RolloutReport> {
        let json = serde_json::to_vec(options).map_err(|e| Error::NotReady(e.to_string()))?;
        self.ask(&["start"], &json).await
    }

    pub async fn list(&self) -> Result<Vec<RolloutReport>> {
        self.ask(&["list"], b"").await
    }

    pub async fn report(&self, id: RolloutId) -> Result<RolloutReport> {
        self.ask(&["report", &id.to_string()], b"").await
    }

    /// `pause`, `resume` or `abort`.
    pub async fn change(&self, verb: &str, id: RolloutId) -> Result<RolloutReport> {
        self.ask(&[verb, &id.to_string()], b"").await
    }

    /// The one named, or the newest.
    pub async fn find(&self, id: Option<RolloutId>) -> Result<RolloutReport> {
        match id {
            Some(id) => self.report(id).await,
            None => self.list().await?.into_iter().next().ok_or(Error::NoRollout),
        }
    }

    /// Shows every look at the rollout until it is over. Being asked to stop ends the watching, not the rollout.
    pub async fn watch(&self, id: RolloutId, mut show: impl FnMut(&RolloutReport)) -> Result<RolloutReport> {
        loop {
            let report = self.report(id).await?;
            show(&report);
            if !report.rollout.state.is_open() {
                return Ok(report);
            }
            if (self.deployment.stop)() {
                return Err(Error::Detached(id));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn ask<T: DeserializeOwned>(&self, words: &[&str], stdin: &[u8]) -> Result<T> {
        let argv: Vec<&str> = FLEET.into_iter().chain(words.iter().copied()).collect();
        let output = self.ssh.output(&self.control, &argv, stdin).await?;
        if output.status != 0 {
            return Err(Error::Fleet(refusal(&output.stderr)));
        }
        serde_json::from_str(&output.stdout)
            .map_err(|e| Error::Fleet(format!("kilnd's answer makes no sense: {e}")))
    }
}

/// The other side's error is JSON; its message is what counts.
fn refusal(stderr: &str) -> String {
    let parsed: Option<serde_json::Value> =
        stderr.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let Some(error) = parsed else { return stderr.to_string() };
    let causes = error["causes"].as_array().into_iter().flatten().filter_map(|c| c.as_str());
    error["error"].as_str().into_iter().chain(causes).collect::<Vec<_>>().join(": ")
}
