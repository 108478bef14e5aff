//! Back to the Slurm before a maintenance upgrade: its data is whole where the upgrade has put it.

use kiln_image::Event;
use serde::Serialize;

use super::LOOK;
use super::seen::{Seen, release_of};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::on_control::Reservation;
use crate::plan::{Plan, plan_together, releases};
use crate::queue::Queue;
use crate::targets::targets;

const PUT_BACK: &str = include_str!("scripts/put-back.sh");

/// What going back would do.
#[derive(Debug, Serialize)]
pub struct WayBack {
    pub cluster: String,
    pub control: String,
    pub from: Option<String>,
    pub to: String,
    pub directory: String,
    /// Of the newer Slurm, if it runs.
    pub queue: Queue,
    pub plan: Plan,
}

impl WayBack {
    pub fn check_jobs(&self) -> Result<()> {
        match self.queue.running.as_slice() {
            [] => Ok(()),
            running => Err(Error::JobsRun(running.to_vec())),
        }
    }
}

impl Deployment<'_> {
    /// Changes nothing, except that a control node that was rebuilt and not configured yet is configured: its volumes are
    /// not mounted before.
    pub async fn way_back(&self) -> Result<WayBack> {
        self.cloud.check().await?;
        let mut observed = self.observe().await?;
        self.check_owner(&observed)?;
        self.check_no_open_upgrade(&observed)?;
        self.check_awake(&observed)?;
        self.ask_release(&mut observed).await;
        let control = self.on_control(&observed)?;
        let mut seen = Seen::parse(&control.script(LOOK, &[]).await?);
        if !seen.mounted {
            // Whether its daemons start does not matter.
            let configured = self.configure_in_upgrade().await;
            seen = Seen::parse(&control.script(LOOK, &[]).await?);
            if !seen.mounted {
                return Err(configured.err().unwrap_or_else(|| Error::NotReady("no state volume".into())));
            }
        }
        let directory =
            seen.aside.ok_or_else(|| Error::NoUpgrade("no older Slurm's data is aside".into()))?;
        let targets = targets(self.spec, &observed);
        let (was, wanted) = (release_of(&directory), releases::future(self.spec, &observed, &targets));
        let Some(to) = wanted.filter(|wanted| was.is_some_and(|was| was.has_major_of(*wanted))) else {
            return Err(Error::OtherBack { directory, wanted });
        };
        let id = self.secrets.cluster_id()?;
        Ok(WayBack {
            cluster: self.spec.name.clone(),
            control: self.spec.control.node.clone(),
            from: releases::of_control(self.spec, &observed).map(|release| release.to_string()),
            to: to.to_string(),
            directory,
            queue: control.queue().await.unwrap_or_default(),
            plan: plan_together(self.spec, id.as_deref(), &observed, &targets)?,
        })
    }

    pub async fn go_back(&self, back: &WayBack) -> Result<()> {
        back.check_jobs()?;
        let observed = self.observe().await?;
        let control = self.on_control(&observed)?;
        self.build_unbuilt(&targets(self.spec, &observed)).await?;
        (self.progress)(Event::working("control", "putting the old Slurm's data back"));
        control.script(PUT_BACK, &self.with_units(&back.directory)).await?;
        (self.progress)(Event::done("control", "the old Slurm's data is back"));
        let observed = self.observe().await?;
        let id = self.secrets.cluster_id()?;
        let plan = plan_together(self.spec, id.as_deref(), &observed, &targets(self.spec, &observed))?;
        self.apply(&plan).await?;
        self.configure_in_upgrade().await?;
        if control.reservation_begun(Reservation::Upgrade).await?.is_some() {
            control.unreserve(Reservation::Upgrade).await?;
        }
        let (directory, script) = (back.directory.as_str(), "touch \"$1/done\" && rm -f \"$1/going-back\"");
        control.script(script, &[directory]).await?;
        Ok(())
    }
}
