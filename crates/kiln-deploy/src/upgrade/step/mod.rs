//! A step to a release of Slurm that takes over what the present one has written, with a way back: a backup first, then the
//! control node alone is rebuilt, its data is converted and compared. Jobs go on running meanwhile; none starts, so that
//! none is lost on a way back. Whatever fails, the old image and the backup are put back.
//!
//! A label of the state's volume tells that a step is open, so that one that was cut off goes on, or back.

mod begin;
mod conversion;
mod go_back;
mod open;
mod whole;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kiln_cloud::{Instance, InstanceStatus, Kind, Labels, Rebuild};
use kiln_image::Event;
use kiln_site::{Purpose, volume_name};
use kiln_slurm::JobState;
use tokio::time::sleep;

pub use open::{Open, Phase};

use crate::apply::Made;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::node_of;
use crate::observe::Observed;
use crate::on_control::{OnControl, Reservation};
use crate::plan::{Action, Begins, ControlUpgrade, Plan, RebuiltNode, Ref, Resource};
use whole::{Whole, parse_ended};

const WHOLE: &str = include_str!("../scripts/whole.sh");

/// How long the cloud may take to rebuild the control node.
const REBUILD_LIMIT: Duration = Duration::from_secs(900);
/// How long slurmctld and slurmdbd may take to hear of jobs that ended while they were away, and of nodes.
const SETTLE_LIMIT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Deployment<'_> {
    pub(crate) async fn upgrade_control(&self, upgrade: &ControlUpgrade, made: &Made) -> Result<()> {
        let Some(planned) = upgrade.instances.0.first() else { return Ok(()) };
        let mut node = planned.clone();
        if upgrade.lost {
            node.id = made.id(&Ref::Made(Resource::Instance(node.node.clone())))?;
        }
        let node = &node;
        let open = match (upgrade.begins, &upgrade.open) {
            (Begins::FailedBefore | Begins::OldWanted, Some(open)) => {
                return self.finish_going_back(upgrade, node, open, made).await;
            }
            (Begins::HalfDone, Some(open)) if self.is_closed(open).await => {
                return self.finish_closed(open).await;
            }
            (Begins::HalfDone, Some(open)) => {
                (self.progress)(Event::done(
                    "upgrade",
                    format!("to Slurm {}: half done, goes on", to(upgrade)),
                ));
                open.clone()
            }
            _ => self.begin_step(upgrade).await?,
        };
        match self.take_over(upgrade, node, &open, made).await {
            // Jobs start from here on: nothing may go back any more.
            Ok(control) => self.close_step(&control, &open).await,
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(error) if self.is_untouched(node, &open).await => {
                self.abandon(&open).await.map_err(|source| back_failed(&open, source))?;
                Err(Error::UpgradeNotBegun(Box::new(error)))
            }
            Err(error) => {
                (self.progress)(Event::failed("upgrade", format!("going back to Slurm {}", upgrade.from)));
                self.note_reason(&open, &error.chain()).await;
                self.step_back(node, &open, made).await.map_err(|source| back_failed(&open, source))?;
                Err(undone(upgrade, error))
            }
        }
    }

    /// For a step of an earlier run.
    async fn finish_going_back(
        &self,
        upgrade: &ControlUpgrade,
        node: &RebuiltNode,
        open: &Open,
        made: &Made,
    ) -> Result<()> {
        if open.phase == Phase::Going && !upgrade.lost && self.is_untouched(node, open).await {
            return self.abandon(open).await;
        }
        if !upgrade.lost && self.is_closed(open).await {
            self.finish_closed(open).await?;
            if open.phase == Phase::Going {
                return Err(Error::NotReady(format!("the upgrade to Slurm {} is complete", to(upgrade))));
            }
        } else {
            self.step_back(node, open, made).await.map_err(|source| back_failed(open, source))?;
        }
        match upgrade.begins {
            Begins::OldWanted => Ok(()),
            _ if upgrade.lost => {
                Err(undone(upgrade, Error::NotReady(format!("{} was lost meanwhile", node.node))))
            }
            _ => Err(undone(upgrade, Error::NotReady(self.noted_reason(open).await))),
        }
    }

    /// The control node was not rebuilt.
    async fn is_untouched(&self, node: &RebuiltNode, open: &Open) -> bool {
        let instance = self.cloud.instance(&node.id).await;
        instance.is_ok_and(|i| has_old_image(&i, open) && i.status == InstanceStatus::Active)
    }

    /// The new Slurm gets the control node and takes over what is on its volumes.
    async fn take_over(
        &self,
        upgrade: &ControlUpgrade,
        node: &RebuiltNode,
        open: &Open,
        made: &Made,
    ) -> Result<OnControl> {
        let image = made.id(&node.image_id)?;
        self.rebuild_control(node, &image, made).await?;
        if self.spec.accounting.is_none() {
            self.configure_control(Some(self.first_daemon()), None).await?;
            let control = self.on_control(&self.observe().await?)?;
            self.convert_database(&control).await?;
        }
        self.configure_control(None, None).await?;
        let control = self.on_control(&self.observe().await?)?;
        let before = self.before(&control, open).await?;
        let differences = self.compare(&control, &before).await?;
        if !differences.is_empty() {
            let lines: Vec<String> = differences.iter().map(|line| format!("\n  {line}")).collect();
            return Err(Error::NotReady(format!("after the conversion:{}", lines.concat())));
        }
        let (jobs, records) = (before.jobs(), before.records());
        (self.progress)(Event::done(
            "upgrade",
            format!(
                "Slurm {} has all {jobs} jobs of the queue, the records of {records} jobs, users and accounts",
                to(upgrade)
            ),
        ));
        Ok(control)
    }

    /// Everything of the control node's bundle but Slurm's daemons is applied before this resource.
    fn first_daemon(&self) -> &'static str {
        match &self.spec.accounting {
            None => "service:slurmdbd.service",
            Some(_) => "service:slurmctld.service",
        }
    }

    /// The control node alone, unless it has this image already.
    async fn rebuild_control(&self, node: &RebuiltNode, image: &str, made: &Made) -> Result<()> {
        let instance = self.cloud.instance(&node.id).await?;
        if instance.image.as_deref() != Some(image) {
            self.check_stop()?;
            (self.progress)(Event::working(&node.node, "rebuilding"));
            let mut labels = made.labels(&node.labels)?;
            labels.extend(self.id_label()?);
            let rebuild = Rebuild {
                image: image.to_string(),
                user_data: self.user_data(&node.node, None)?,
                ssh_key: self.ssh_public_key()?,
                labels,
            };
            self.cloud.rebuild(&node.id, rebuild).await?;
        }
        let wait = self.control_active(&node.id);
        self.stop.run_until_cancelled(wait).await.unwrap_or(Err(Error::Stopped))
    }

    async fn control_active(&self, id: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let instance = self.cloud.instance(id).await?;
            let node = node_of(&instance).to_string();
            match instance.status {
                InstanceStatus::Active => return Ok(()),
                InstanceStatus::Error { reason } => return Err(Error::Broken { node, reason }),
                InstanceStatus::Stopped => self.cloud.start(id).await.map(drop)?,
                status if start.elapsed() > REBUILD_LIMIT => {
                    return Err(Error::NotActive { node, status: status.word().into() });
                }
                _ => {}
            }
            sleep(self.cloud.poll_interval()).await;
        }
    }

    async fn before(&self, control: &OnControl, open: &Open) -> Result<Whole> {
        let text = control.run(&["cat", &format!("{}/before.txt", open.directory)]).await?;
        Ok(Whole::parse(&text))
    }

    async fn now(&self, control: &OnControl) -> Result<Whole> {
        Ok(Whole::parse(&control.script(WHOLE, &[&self.spec.name, self.database()]).await?))
    }

    /// For `whole.sh`: of a slurmdbd elsewhere there is no database to count in.
    fn database(&self) -> &'static str {
        if self.spec.accounting.is_none() { "own" } else { "" }
    }

    /// What is missing, once slurmctld has heard from its nodes and the accounts know of the jobs that ended meanwhile.
    async fn compare(&self, control: &OnControl, before: &Whole) -> Result<Vec<String>> {
        (self.progress)(Event::working("upgrade", "comparing queue and accounts"));
        let is_purge = |key: &String| key.to_ascii_lowercase().starts_with("purge");
        let purges = self.spec.slurm.slurmdbd_config.keys().any(is_purge);
        let start = Instant::now();
        loop {
            let seen = async {
                let now = self.now(control).await?;
                let ended = self.ended(control, &Whole::gone(before, &now)).await?;
                Ok::<_, Error>((now, ended))
            };
            let (now, ended) = match seen.await {
                Ok(seen) => seen,
                Err(error) if start.elapsed() > SETTLE_LIMIT => return Err(error),
                // slurmctld has just been started.
                Err(_) => {
                    self.check_stop()?;
                    sleep(LOOK_EVERY).await;
                    continue;
                }
            };
            let jobs = Whole::harmed_jobs(before, &now, &ended);
            let served = |node: &&kiln_slurm::Node| node.state.in_service();
            let silent = before.nodes.values().filter(served).filter(|node| {
                now.nodes
                    .get(&node.name)
                    .is_none_or(|n| !n.state.in_service() && !n.state.is_awaited_by_slurm())
            });
            let silent: Vec<&str> = silent.map(|node| node.name.as_str()).collect();
            let settled = jobs.is_empty() && silent.is_empty();
            if settled || start.elapsed() > SETTLE_LIMIT {
                let mut differences = jobs;
                differences.extend(Whole::lost_accounts(before, &now, purges));
                let served = before.nodes.values().filter(served).count();
                // One node may break at any time; that none comes back is the new Slurm's doing.
                if !silent.is_empty() && silent.len() == served {
                    differences.push("no node has come back into service".to_string());
                } else if !silent.is_empty() {
                    let nodes = kiln_spec::hostlist::fold(silent.iter().copied());
                    (self.progress)(Event::failed(nodes, "not in service after the upgrade"));
                }
                return Ok(differences);
            }
            if self.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_none() {
                return Err(Error::Stopped);
            }
        }
    }

    async fn ended(&self, control: &OnControl, gone: &[&str]) -> Result<BTreeMap<String, JobState>> {
        let mut ended = BTreeMap::new();
        for some in gone.chunks(500) {
            let ids = some.join(",");
            let argv = [
                "sacct",
                "--allocations",
                "--noheader",
                "--parsable2",
                "--format=JobID,State",
                "--jobs",
                &ids,
            ];
            ended.extend(parse_ended(&control.run(&argv).await?));
        }
        Ok(ended)
    }

    /// Jobs start again, and nothing is open any more. Noted before jobs start, so that a run that is cut off in between does
    /// not go back behind them.
    async fn close_step(&self, control: &OnControl, open: &Open) -> Result<()> {
        control.script("touch \"$1\" && sync", &[&done(open)]).await?;
        if control.reservation_begun(Reservation::Step).await?.is_some() {
            control.unreserve(Reservation::Step).await?;
        }
        self.mark_step(Open::none()).await
    }

    /// An earlier run was cut off when all that was left to do was to let jobs start again. A control node that does not
    /// answer has not come that far.
    async fn is_closed(&self, open: &Open) -> bool {
        let ask = async {
            let control = self.on_control(&self.observe().await?)?;
            control.run(&["test", "-e", &done(open)]).await
        };
        ask.await.is_ok()
    }

    async fn finish_closed(&self, open: &Open) -> Result<()> {
        let control = self.on_control(&self.observe().await?)?;
        self.close_step(&control, open).await
    }

    /// A new control node, which replaces one that was lost, goes back, and does so after a run that is cut off here, too.
    pub(crate) async fn mark_lost(&self, plan: &Plan) -> Result<()> {
        let upgrades = plan.actions.iter().filter_map(|action| match action {
            Action::UpgradeControl(upgrade) if upgrade.lost => upgrade.open.clone(),
            _ => None,
        });
        for open in upgrades {
            self.mark_step(Open { phase: Phase::Back, ..open }.label()).await?;
        }
        Ok(())
    }

    async fn mark_step(&self, label: Labels) -> Result<()> {
        let observed = self.observe().await?;
        let volume = observed.state_volume(self.spec);
        let volume = volume.ok_or_else(|| Error::NoVolume(volume_name(self.spec, Purpose::State)))?;
        Ok(self.cloud.label(Kind::Volume, &volume.id, label).await?)
    }

    /// For verbs that would start daemons on data that is half converted.
    pub(crate) fn check_no_open_upgrade(&self, observed: &Observed) -> Result<()> {
        match Open::of(self.spec, observed).and_then(|open| open.release()) {
            Some(from) => Err(Error::UpgradeOpen(from)),
            None => Ok(()),
        }
    }
}

fn to(upgrade: &ControlUpgrade) -> String {
    upgrade.to.map_or_else(|| "of the file".to_string(), |to| to.to_string())
}

/// On the state volume: whether all but the end of a step is done.
fn done(open: &Open) -> String {
    format!("{}/done", open.directory)
}

fn undone(upgrade: &ControlUpgrade, error: Error) -> Error {
    let to = upgrade.to.unwrap_or(upgrade.from);
    Error::UpgradeUndone { from: upgrade.from, to, source: Box::new(error) }
}

fn back_failed(open: &Open, source: Error) -> Error {
    match source {
        Error::Stopped => Error::Stopped,
        source => Error::BackFailed { directory: open.directory.clone(), source: Box::new(source) },
    }
}

/// Whether the instance runs the image of before.
fn has_old_image(instance: &Instance, open: &Open) -> bool {
    instance.image.as_ref() == Some(&open.image)
}
