//! The steps of a maintenance upgrade, each of which may be repeated.

use std::time::Duration;

use jiff::Timestamp;
use kiln_image::Event;
use kiln_slurm::Release;
use serde::Serialize;
use tokio::time::sleep;

use super::limits::QOS_FIELDS;
use super::restore::Restored;
use super::seen::{Seen, directory_for, release_of};
use super::way::Way;
use super::{DIRECTORY, LOOK, Outlook};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::on_control::{OnControl, Reservation};
use crate::plan::{plan_together, releases};
use crate::queue::awaited;
use crate::targets::targets;

pub const LIST: &str = include_str!("scripts/list.sh");
const EXPORT: &str = include_str!("scripts/export.sh");
const SET_ASIDE: &str = include_str!("scripts/set-aside.sh");

/// How often the queue is looked at while jobs end.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// When jobs must have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// No job may run now.
    Now,
    /// From now on none starts; those that run end first.
    WhenJobsEnd,
    /// From this time on, in Slurm's words for a time.
    At(String),
}

#[derive(Debug, Serialize)]
pub struct Upgraded {
    /// On the control node: what was kept of the old Slurm.
    pub directory: String,
    #[serde(flatten)]
    pub restored: Restored,
}

impl Deployment<'_> {
    pub async fn upgrade(&self, outlook: &Outlook, begin: &Begin) -> Result<Upgraded> {
        let directory = match &outlook.way {
            Way::Begin { from, .. } => Some(self.put_aside(*from, outlook, begin).await?),
            Way::Continue { directory } => directory.clone(),
        };
        let place = directory.clone().unwrap_or_else(|| DIRECTORY.to_string());
        let rest = self.rebuild_and_restore(directory).await;
        rest.map_err(|error| match error {
            Error::Stopped => Error::Stopped,
            error => Error::UpgradeFailed { directory: place, source: Box::new(error) },
        })
    }

    /// Until Slurm's data is aside. Everything can still be given up.
    async fn put_aside(&self, from: Release, outlook: &Outlook, begin: &Begin) -> Result<String> {
        outlook.check_begin(begin)?;
        let observed = self.observe().await?;
        let control = self.on_control(&observed)?;
        if control.reservation_begun(Reservation::Upgrade).await?.is_none() {
            let at = if let Begin::At(time) = begin { time } else { "now" };
            control.reserve(Reservation::Upgrade, at).await?;
            (self.progress)(Event::done("reservation", "no job starts that would cross the upgrade"));
        }
        self.build_unbuilt(&targets(self.spec, &observed)).await?;
        self.wait_for_jobs(&control).await?;
        let time = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
        let directory = directory_for(&time, from);
        (self.progress)(Event::working("control", "writing down accounts, history and queue"));
        control.script(EXPORT, &[&directory, &self.spec.name, LIST, &QOS_FIELDS.join(",")]).await?;
        (self.progress)(Event::done("control", format!("accounts, history and queue are in {directory}")));
        self.check_stop()?;
        self.set_aside(&control, &directory).await?;
        Ok(directory)
    }

    async fn set_aside(&self, control: &OnControl, directory: &str) -> Result<()> {
        (self.progress)(Event::working("control", "stopping Slurm's daemons, putting their data aside"));
        control.script(SET_ASIDE, &self.with_units(directory)).await?;
        (self.progress)(Event::done("control", "Slurm's data is aside"));
        Ok(())
    }

    /// The arguments of a script that stops Slurm's daemons.
    pub(super) fn with_units<'d>(&self, directory: &'d str) -> Vec<&'d str> {
        [directory].into_iter().chain(self.units_to_stop()).collect()
    }

    /// Being asked to stop leaves the reservation: the next run goes on waiting.
    async fn wait_for_jobs(&self, control: &OnControl) -> Result<()> {
        loop {
            let begun = control.reservation_begun(Reservation::Upgrade).await?.unwrap_or(true);
            let running = control.queue().await?.running;
            if begun && running.is_empty() {
                (self.progress)(Event::done("jobs", "none runs"));
                return Ok(());
            }
            let text =
                if running.is_empty() { "waiting for the time to begin".into() } else { awaited(&running) };
            (self.progress)(Event::working("jobs", text));
            if self.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_none() {
                return Err(Error::UpgradeWaits);
            }
        }
    }

    async fn rebuild_and_restore(&self, directory: Option<String>) -> Result<Upgraded> {
        let mut observed = self.observe().await?;
        self.ask_release(&mut observed).await;
        let targets = targets(self.spec, &observed);
        let id = self.secrets.cluster_id()?;
        let plan = plan_together(self.spec, id.as_deref(), &observed, &targets)?;
        self.build_unbuilt(&targets).await?;
        // Cut off while data was put aside, or started again since then.
        let (was, is) =
            (directory.as_deref().and_then(release_of), releases::of_control(self.spec, &observed));
        if let (Some(directory), Some(was), Some(is)) = (&directory, was, is)
            && was.has_major_of(is)
        {
            self.set_aside(&self.on_control(&observed)?, directory).await?;
        }
        self.apply(&plan).await?;
        self.configure_in_upgrade().await?;
        let control = self.on_control(&self.observe().await?)?;
        let directory = if let Some(directory) = directory {
            directory
        } else {
            let seen = Seen::parse(&control.script(LOOK, &[]).await?);
            seen.open.ok_or_else(|| Error::NoUpgrade("no upgrade was begun".into()))?
        };
        let restored = self.restore(&control, &directory).await?;
        control.run(&["touch", &format!("{directory}/done")]).await?;
        Ok(Upgraded { directory, restored })
    }
}
