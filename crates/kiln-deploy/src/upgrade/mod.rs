//! The maintenance upgrade, for a Slurm too far away to take over what the present one has written: jobs end, all that
//! can be kept is written down, all nodes get their new images at once, Slurm starts empty and gets back its users and
//! limits. Data of the old Slurm is put aside on the state volume, never deleted.
//!
//! Where an upgrade stands is seen from the control node and its state volume, so that one that was cut off continues.

mod back;
mod limits;
mod restore;
mod seen;
mod step;
mod steps;
mod way;

use kiln_site::{Purpose, volume_name};
use kiln_slurm::{Release, parse_nodes};
use kiln_spec::Volume;
use serde::Serialize;

pub use back::WayBack;
pub use step::{Open, Phase};
pub use steps::{Begin, Upgraded};

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::on_control::Reservation;
use crate::plan::{Plan, plan_together, releases};
use crate::queue::Queue;
use crate::targets::targets;
use seen::Seen;
use way::{Known, Way, way};

const LOOK: &str = include_str!("scripts/look.sh");

/// On the state volume: a directory for each upgrade.
const DIRECTORY: &str = "/var/lib/state/upgrades";

/// What a maintenance upgrade would do, for an administrator to agree to.
#[derive(Debug, Serialize)]
pub struct Outlook {
    pub cluster: String,
    /// The control node.
    pub control: String,
    pub from: Option<String>,
    pub to: Option<String>,
    /// Slurm's data is aside already: it was begun before.
    pub begun: bool,
    pub queue: Queue,
    /// Nodes that others have drained; they stay so.
    pub drained: Vec<String>,
    /// Names of reservations, which are not kept.
    pub reservations: Vec<String>,
    pub plan: Plan,
    #[serde(skip)]
    way: Way,
}

impl Outlook {
    /// Jobs that run are not ended without a word.
    pub fn check_begin(&self, begin: &Begin) -> Result<()> {
        match begin {
            Begin::Now if !self.queue.running.is_empty() => Err(Error::JobsRun(self.queue.running.clone())),
            _ => Ok(()),
        }
    }
}

impl Deployment<'_> {
    /// Changes nothing.
    pub async fn upgrade_outlook(&self) -> Result<Outlook> {
        if self.spec.volumes.state == Volume::None {
            let volume = volume_name(self.spec, Purpose::State);
            return Err(Error::NoUpgrade(format!(
                "the cluster has no volume {volume} to put Slurm's data aside on"
            )));
        }
        if let Some(dbd) = &self.spec.accounting {
            return Err(Error::NoUpgrade(format!(
                "accounting is at {}: no slurmdbd works with both ends of a jump that needs a maintenance upgrade; \
                 go by releases between them, each with `kiln up`",
                dbd.place()
            )));
        }
        self.cloud.check().await?;
        let mut observed = self.observe().await?;
        self.check_owner(&observed)?;
        self.check_no_open_upgrade(&observed)?;
        self.check_awake(&observed)?;
        self.ask_release(&mut observed).await;
        let targets = targets(self.spec, &observed);
        let control = self.on_control(&observed)?;
        let seen = Seen::parse(&control.script(LOOK, &[]).await?);
        let known = Known {
            control: self.spec.control.node.clone(),
            present: releases::of_control(self.spec, &observed),
            future: releases::future(self.spec, &observed, &targets),
            mounted: seen.mounted,
            open: seen.open,
        };
        let way = way(&known)?;
        let id = self.secrets.cluster_id()?;
        let plan = plan_together(self.spec, id.as_deref(), &observed, &targets)?;
        let mut outlook = Outlook {
            cluster: self.spec.name.clone(),
            control: self.spec.control.node.clone(),
            from: known.present.as_ref().map(Release::to_string),
            to: known.future.as_ref().map(Release::to_string),
            begun: matches!(way, Way::Continue { .. }),
            queue: Queue::default(),
            drained: Vec::new(),
            reservations: Vec::new(),
            plan,
            way,
        };
        if !outlook.begun {
            outlook.queue = control.queue().await?;
            let nodes = parse_nodes(&control.run(&["scontrol", "show", "node", "--oneliner"]).await?);
            let drained = nodes.into_iter().filter(|(_, node)| node.is_drained_by_others());
            outlook.drained = drained.map(|(name, _)| name).collect();
            let text = control.run(&["scontrol", "show", "reservation", "--oneliner"]).await?;
            let names = text.lines().filter_map(|line| line.strip_prefix("ReservationName="));
            let names = names.filter_map(|rest| rest.split_whitespace().next());
            let is_own =
                |name: &&str| [Reservation::Upgrade, Reservation::Step].iter().any(|r| r.name() == *name);
            outlook.reservations = names.filter(|name| !is_own(name)).map(String::from).collect();
            self.check_no_rollout().await?;
        }
        Ok(outlook)
    }

    /// Its jobs would wait behind the reservation forever.
    pub(crate) async fn check_no_rollout(&self) -> Result<()> {
        let rollouts = self.rollouts().await?.list().await?;
        match rollouts.iter().find(|report| report.rollout.state.is_open()) {
            Some(report) => Err(Error::RolloutOpen(report.rollout.id)),
            None => Ok(()),
        }
    }

    /// For verbs that would start Slurm without its data. Returns whether the volume is there on which it would be.
    pub(crate) async fn check_nothing_aside(&self, observed: &Observed) -> Result<bool> {
        let seen = Seen::parse(&self.on_control(observed)?.script(LOOK, &[]).await?);
        match seen.open {
            Some(directory) => Err(Error::UpgradeCutOff(directory)),
            None => Ok(seen.mounted),
        }
    }

    /// Gives up an upgrade for which no data was put aside yet. Returns whether there was one.
    pub async fn abort_upgrade(&self) -> Result<bool> {
        let observed = self.observe().await?;
        self.check_owner(&observed)?;
        let control = self.on_control(&observed)?;
        if let Some(directory) = Seen::parse(&control.script(LOOK, &[]).await?).open {
            return Err(Error::DataAside(directory));
        }
        let mut there = false;
        for reservation in [Reservation::Upgrade, Reservation::Step] {
            if control.reservation_begun(reservation).await?.is_some() {
                control.unreserve(reservation).await?;
                there = true;
            }
        }
        Ok(there)
    }
}
