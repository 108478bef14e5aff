//! Until the control node is rebuilt: whatever fails here, Slurm goes on as it was.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_image::Event;
use kiln_slurm::Release;
use kiln_wire::{FleetFile, Format as _, paths};
use sha2::{Digest as _, Sha256};

use super::open::{Open, Phase};
use super::{WHOLE, to};
use crate::bundles::KeptImages;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::on_control::{OnControl, Reservation};
use crate::plan::ControlUpgrade;
use crate::upgrade::seen::directory_for;

/// Starts the daemons where they do not run: an earlier run may have been cut off after it had stopped them.
const ANSWERS: &str = include_str!("../scripts/answers.sh");
const NOTE: &str = "set -eu; umask 077; mkdir -p \"$1\"; sh -c \"$2\" sh \"$3\" \"$4\" >\"$1/before.txt\"";

impl Deployment<'_> {
    pub(super) async fn begin_step(&self, upgrade: &ControlUpgrade) -> Result<Open> {
        let observed = self.observe().await?;
        if !observed.images.iter().any(|image| image.id == upgrade.old_image) {
            return Err(Error::NoWayBack(upgrade.from_image.clone()));
        }
        let control = self.on_control(&observed)?;
        let begun = self.begin_on(&control, upgrade).await;
        begun.map_err(|error| match error {
            Error::Stopped => Error::Stopped,
            error => Error::UpgradeNotBegun(Box::new(error)),
        })
    }

    async fn begin_on(&self, control: &OnControl, upgrade: &ControlUpgrade) -> Result<Open> {
        let kiln = self.kiln_bytes()?;
        let digest = hex::encode(Sha256::digest(&kiln));
        self.install_kiln(&control.ssh, &control.host, &kiln, &digest, false).await?;
        control.script(ANSWERS, &self.slurms_units_to_start()).await?;
        // What starts now would not be in the backup.
        if !self.spec.compute.is_empty() && control.reservation_begun(Reservation::Step).await?.is_none() {
            control.reserve(Reservation::Step, "now").await?;
        }
        let prepared = self.prepare(control, upgrade).await;
        if prepared.is_err() {
            self.as_before(control).await?;
        }
        prepared
    }

    /// Slurm's daemons that run here, in the order in which they are stopped.
    fn slurms_units(&self) -> Vec<&'static str> {
        let mut units = self.units_to_stop();
        units.retain(|unit| unit.starts_with("slurm"));
        units
    }

    /// slurmdbd first.
    fn slurms_units_to_start(&self) -> Vec<&'static str> {
        let mut units = self.slurms_units();
        units.reverse();
        units
    }

    /// Slurm goes on with what it had.
    async fn as_before(&self, control: &OnControl) -> Result<()> {
        control.script(ANSWERS, &self.slurms_units_to_start()).await?;
        if control.reservation_begun(Reservation::Step).await?.is_some() {
            control.unreserve(Reservation::Step).await?;
        }
        Ok(())
    }

    /// Gives up a step for which the control node was not rebuilt yet.
    pub(super) async fn abandon(&self, open: &Open) -> Result<()> {
        let control = self.on_control(&self.observe().await?)?;
        self.as_before(&control).await?;
        self.close_step(&control, open).await
    }

    async fn prepare(&self, control: &OnControl, upgrade: &ControlUpgrade) -> Result<Open> {
        let time = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
        let directory = directory_for(&time, upgrade.from);
        control.script(NOTE, &[&directory, WHOLE, &self.spec.name, self.database()]).await?;
        let images = images(&control.run(&["cat", paths::FLEET_FILE]).await?)?;
        control.write(&format!("{directory}/images.json"), images.as_bytes()).await?;
        self.check_stop()?;
        (self.progress)(Event::working(&control.host.name, "stopping Slurm's daemons"));
        let units = ["systemctl", "stop", "kilnd.service"].into_iter().chain(self.slurms_units());
        control.run(&units.collect::<Vec<_>>()).await?;
        let reason = format!("before the upgrade to Slurm {}", to(upgrade));
        let made = self.backups().await?.make(&reason).await?;
        control.write(&format!("{directory}/backup"), made.path.to_string_lossy().as_bytes()).await?;
        self.check_stop()?;
        let open = Open { phase: Phase::Going, directory, image: upgrade.old_image.clone() };
        self.mark_step(open.label()).await?;
        Ok(open)
    }

    /// For the way back: the file's images are too new for the old Slurm.
    pub(super) async fn kept_images(&self, control: &OnControl, open: &Open) -> Result<KeptImages> {
        let text = control.run(&["cat", &format!("{}/images.json", open.directory)]).await?;
        serde_json::from_str(&text).map_err(|error| Error::NotReady(format!("images.json: {error}")))
    }
}

/// The image of each compute node, as kilnd was told.
fn images(fleet: &str) -> Result<String> {
    let fleet = FleetFile::from_json(fleet.as_bytes()).map_err(|error| Error::NotReady(error.to_string()))?;
    let images: BTreeMap<String, String> =
        fleet.nodes.into_iter().filter_map(|(node, told)| Some((node, told.image?))).collect();
    serde_json::to_string(&images).map_err(|error| Error::NotReady(error.to_string()))
}

/// For messages of a step that goes back.
pub(super) fn old(open: &Open) -> String {
    open.release().as_ref().map_or_else(|| "of before".to_string(), Release::to_string)
}
