//! Rollouts as seen from the deploy host. They are kept in kilnd's store on the control node; here they are started,
//! queried and watched.

use std::time::{Duration, Instant};

use kiln_wire::rollout::{Options, RolloutId, RolloutReport};
use kiln_wire::{Format as _, labels};

use crate::control::Control;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::plan::{SoftwareChange, releases, software};
use crate::sleep::Sleep;

/// As often as kilnd itself looks at a rollout.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the control node may not answer while a rollout is watched.
const AWAY_LIMIT: Duration = Duration::from_secs(300);

pub struct Rollouts<'d> {
    deployment: &'d Deployment<'d>,
    control: Control,
    observed: Observed,
    sleep: Sleep,
}

impl Deployment<'_> {
    pub async fn rollouts(&self) -> Result<Rollouts<'_>> {
        let observed = self.observe().await?;
        let (control, sleep) = (self.control(&observed)?, observed.sleep(self.spec));
        Ok(Rollouts { deployment: self, control, sleep, observed })
    }
}

impl Rollouts<'_> {
    /// What a rollout brings to the nodes that it is for. Refused where Slurm's rules forbid it.
    pub async fn outlook(&self, options: &Options) -> Result<Vec<SoftwareChange>> {
        let mut observed = self.observed.clone();
        self.deployment.ask_release(&mut observed).await;
        let spec = self.deployment.spec;
        let in_partitions = |group: &str| {
            let mut asked =
                spec.rebuild.iter().filter(|partition| options.partitions.contains(&partition.name));
            options.partitions.is_empty()
                || asked.any(|partition| partition.groups.iter().any(|g| g == group))
        };
        let instances = observed.nodes();
        // kilnd moves a node to the image that its instance is labelled with.
        let target = |name: &str| instances.get(name)?.labels.get(labels::TARGET_IMAGE).map(String::as_str);
        let groups = spec.compute.iter().filter(|group| in_partitions(&group.name));
        let nodes = groups.flat_map(|group| group.nodes.iter().map(String::as_str));
        let asked = |name: &&str| options.nodes.is_empty() || options.nodes.iter().any(|node| node == name);
        let wanted: Vec<(&str, &str)> =
            nodes.filter(asked).filter_map(|name| Some((name, target(name)?))).collect();
        releases::check_rollout(spec, &observed, &wanted)?;
        Ok(software::changes(&observed, wanted.into_iter()))
    }

    pub async fn start(&self, options: &Options) -> Result<RolloutReport> {
        // Its jobs would wait for the cluster to wake up.
        self.sleep.check_awake(&self.deployment.spec.name)?;
        let json = options.to_json().map_err(|e| Error::NotReady(e.to_string()))?;
        self.control.patient().ask(&["start"], &json).await
    }

    pub async fn list(&self) -> Result<Vec<RolloutReport>> {
        self.control.ask(&["list"], b"").await
    }

    pub async fn report(&self, id: RolloutId) -> Result<RolloutReport> {
        self.control.ask(&["report", &id.to_string()], b"").await
    }

    /// `pause`, `resume` or `abort`.
    pub async fn change(&self, verb: &str, id: RolloutId) -> Result<RolloutReport> {
        self.control.patient().ask(&[verb, &id.to_string()], b"").await
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
        let mut seen = Instant::now();
        loop {
            match self.report(id).await {
                // A control node that is busy, or away for a moment: the rollout goes on meanwhile.
                Err(Error::Ssh(kiln_ssh::Error::Unreachable { .. })) if seen.elapsed() < AWAY_LIMIT => {}
                Err(error) => return Err(error),
                Ok(report) => {
                    seen = Instant::now();
                    show(&report);
                    if !report.rollout.state.is_open() {
                        return Ok(report);
                    }
                }
            }
            let pause = tokio::time::sleep(LOOK_EVERY);
            if self.deployment.stop.run_until_cancelled(pause).await.is_none() {
                return Err(Error::Detached(id));
            }
        }
    }
}
