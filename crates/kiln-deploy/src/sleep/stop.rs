//! The steps of putting a cluster to sleep, each of which may be repeated.

use std::time::Duration;

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus};
use kiln_image::Event;
use kiln_spec::hostlist;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::Sleep;
use super::outlook::{Jobs, StopOutlook, Stopping, is_elastic, rollouts_unknown, stop_outlook};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::node_of;
use crate::observe::Observed;
use crate::on_control::{OnControl, Reservation};
use crate::queue::{QueuedJob, awaited};
use crate::unlisted::with_unlisted;

/// A job that may not be requeued is ended.
const END_JOBS: &str = r#"for id in "$@"; do scontrol requeue "$id" >/dev/null 2>&1 || scancel "$id"; done"#;
/// kilnd first: it mends nodes that are off.
const STOP_DAEMONS: &str = r#"systemctl stop kilnd.service && systemctl stop "$@" && sync"#;

const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long Slurm and kilnd may take to power elastic nodes down. What is left then is deleted here.
const POWER_DOWN_LIMIT: Duration = Duration::from_secs(120);

/// What became of it.
#[derive(Debug, Serialize)]
pub struct Stopped {
    pub cluster: String,
    /// Otherwise it waits for these jobs.
    pub asleep: bool,
    pub waits_for: Vec<QueuedJob>,
    /// The name of the one that was made.
    pub backup: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_error: Option<String>,
}

impl Deployment<'_> {
    /// Changes nothing.
    pub async fn stop_outlook(&self) -> Result<StopOutlook> {
        let observed = self.observe().await?;
        self.check_owner(&observed)?;
        if observed.instances.is_empty() && !observed.sleep(self.spec).is_asleep() {
            return Err(Error::NotReady(format!("cluster {} has no instances", self.spec.name)));
        }
        let mut outlook = stop_outlook(self.spec, &observed, self.jobs(&observed).await);
        if matches!(outlook.jobs, Jobs::Known(_)) {
            outlook.rollouts_unknown = rollouts_unknown(self.check_no_rollout().await)?;
        }
        Ok(outlook)
    }

    async fn jobs(&self, observed: &Observed) -> Jobs {
        let name = self.spec.control.node.as_str();
        let asleep = observed.sleep(self.spec).is_asleep();
        let why = match observed.nodes().get(name) {
            None => format!("{name} has no instance"),
            Some(control) if control.status != InstanceStatus::Active => {
                format!("{name} is {}", control.status.word())
            }
            Some(_) => match self.queue(observed).await {
                Ok(jobs) => return jobs,
                Err(error) => error.chain(),
            },
        };
        // Its daemons were stopped when no job ran any more.
        if asleep { Jobs::None } else { Jobs::Unknown(why) }
    }

    async fn queue(&self, observed: &Observed) -> Result<Jobs> {
        Ok(Jobs::Known(self.on_control(observed)?.queue().await?))
    }

    /// `wait`: for the jobs that run. Otherwise it is left to a later run where jobs run.
    pub async fn stop_cluster(
        &self,
        outlook: &StopOutlook,
        stopping: Stopping,
        wait: bool,
    ) -> Result<Stopped> {
        outlook.check(stopping)?;
        let mut stopped = Stopped {
            cluster: self.spec.name.clone(),
            asleep: true,
            waits_for: Vec::new(),
            backup: None,
            backup_error: None,
        };
        if outlook.is_done() {
            return Ok(stopped);
        }
        let observed = self.observe().await?;
        if let Jobs::Known(_) = outlook.jobs {
            let control = self.on_control(&observed)?;
            self.close(&observed, &control).await?;
            stopped.waits_for = self.end_jobs(&control, stopping, wait).await?;
            if !stopped.waits_for.is_empty() {
                stopped.asleep = false;
                return Ok(stopped);
            }
            self.back_up(&mut stopped).await?;
            self.power_down(&observed).await?;
        }
        self.check_stop()?;
        if !observed.sleep(self.spec).is_asleep() {
            self.mark(&observed, Sleep::Asleep { since: Some(Timestamp::now()) }).await?;
        }
        self.stop_daemons_of(outlook, &observed).await?;
        // What was made or deleted in the meantime is seen, and what the list lacks.
        let mut now = self.observe().await?;
        now.instances = self.with_unlisted(now.instances, &observed).await?;
        let left = stop_outlook(self.spec, &now, Jobs::None);
        self.delete(&left.delete).await?;
        self.stop_instances(&left.stop).await?;
        // The others have their home directories and their configuration from it.
        self.stop_instances(left.control.as_slice()).await?;
        Ok(stopped)
    }

    /// From here on no job starts.
    async fn close(&self, observed: &Observed, control: &OnControl) -> Result<()> {
        if observed.sleep(self.spec) == Sleep::Awake {
            self.mark(observed, Sleep::Closing).await?;
        }
        if control.reservation_begun(Reservation::Sleep).await?.is_none() {
            control.reserve(Reservation::Sleep, "now").await?;
            (self.progress)(Event::done("slurm", "no job starts; the queue is kept"));
        }
        Ok(())
    }

    /// Those that still run.
    async fn end_jobs(&self, control: &OnControl, stopping: Stopping, wait: bool) -> Result<Vec<QueuedJob>> {
        let mut told = false;
        loop {
            let running = control.queue().await?.running;
            if running.is_empty() {
                if wait || told {
                    (self.progress)(Event::done("jobs", "none runs"));
                }
                return Ok(running);
            }
            match stopping {
                Stopping::Now if !told => {
                    // One that is over already would be run once more.
                    let on = running.iter().filter(|job| job.state != "COMPLETING");
                    let ids: Vec<&str> = on.map(|job| job.id.as_str()).collect();
                    control.script(END_JOBS, &ids).await?;
                    told = true;
                }
                Stopping::AfterJobs if !wait => return Ok(running),
                _ => {}
            }
            (self.progress)(Event::working("jobs", awaited(&running)));
            if self.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_none() {
                return Err(Error::Closing(self.spec.name.clone()));
            }
        }
    }

    /// The volumes stay, so that one that fails is told and does not keep the cluster awake.
    async fn back_up(&self, stopped: &mut Stopped) -> Result<()> {
        self.check_stop()?;
        match self.backups().await?.make("kiln stop").await {
            Ok(made) => stopped.backup = Some(made.name),
            Err(error) => {
                (self.progress)(Event::failed(&self.spec.control.node, "made no backup"));
                stopped.backup_error = Some(error.chain());
            }
        }
        Ok(())
    }

    /// Slurm is to know that elastic nodes are off when it wakes up.
    async fn power_down(&self, observed: &Observed) -> Result<()> {
        let slurm = self.ask_slurm_view(observed, |_| false).await;
        let on = observed.instances.iter().filter(|i| is_elastic(self.spec, i)).map(node_of);
        let is_kept = |name: &&str| slurm.node(name).is_some_and(|node| !node.state.is_losing_instance());
        let (kept, gone): (Vec<&str>, Vec<&str>) = on.partition(is_kept);
        if kept.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let names = hostlist::fold(kept.iter().chain(&gone).copied());
        if !kept.is_empty() {
            let kept = format!("nodename={}", hostlist::fold(kept));
            self.run_slurm(observed, &["scontrol", "update", &kept, "state=power_down"]).await?;
        }
        let start = Instant::now();
        while start.elapsed() < POWER_DOWN_LIMIT {
            self.check_stop()?;
            let instances = self.cloud.instances(&self.spec.name).await?;
            let instances = self.with_unlisted(instances, observed).await?;
            if !instances.iter().any(|i| is_elastic(self.spec, i)) {
                (self.progress)(Event::done(names, "powered down"));
                return Ok(());
            }
            (self.progress)(Event::working(&names, "being powered down"));
            sleep(self.cloud.poll_interval()).await;
        }
        Ok(())
    }

    /// A list may be incomplete. What it lacks would run on, and cost money, in a cluster that is asleep.
    async fn with_unlisted(&self, listed: Vec<Instance>, before: &Observed) -> Result<Vec<Instance>> {
        with_unlisted(&self.cloud, &self.spec.name, listed, &before.instances).await
    }

    /// slurmctld writes down its state, slurmdbd and the database end what they are at.
    async fn stop_daemons_of(&self, outlook: &StopOutlook, observed: &Observed) -> Result<()> {
        let Some(node) = &outlook.control else { return Ok(()) };
        (self.progress)(Event::working(&node.node, "stopping Slurm's daemons"));
        let stopped = match self.on_control(observed) {
            Ok(control) => control.script(STOP_DAEMONS, &self.units_to_stop()).await,
            Err(error) => Err(error),
        };
        match (stopped, &outlook.jobs) {
            (Ok(_), _) => (self.progress)(Event::done(&node.node, "Slurm's daemons are stopped")),
            // It did not answer before either.
            (Err(_), Jobs::Unknown(_) | Jobs::None) => {}
            (Err(error), Jobs::Known(_)) => return Err(error),
        }
        Ok(())
    }
}
