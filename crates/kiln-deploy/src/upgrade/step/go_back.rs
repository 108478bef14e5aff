//! Back to the Slurm before a step: its image, its database, its state. Every part may be repeated.

use std::time::Duration;

use kiln_distro::Family;
use kiln_image::Event;

use super::begin::old;
use super::has_old_image;
use super::open::{Open, Phase};
use super::whole::Whole;
use crate::apply::Made;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::plan::RebuiltNode;

/// MariaDB promises nothing for a database that a newer MariaDB has opened. The old one starts with a new directory and
/// reads the backup.
const NEWER_ASIDE: &str = include_str!("../scripts/newer-aside.sh");
const PUT_BACKUP_BACK: &str = include_str!("../scripts/put-backup-back.sh");
const NOTE_REASON: &str = "mountpoint -q /var/lib/state && cat >\"$1/reason\"";

/// How long a control node that is to be replaced may take to answer.
const ASK_LIMIT: Duration = Duration::from_secs(60);

impl Deployment<'_> {
    pub(super) async fn step_back(&self, node: &RebuiltNode, open: &Open, made: &Made) -> Result<()> {
        let open = &Open { phase: Phase::Back, ..open.clone() };
        self.mark_step(open.label()).await?;
        let lost = if has_old_image(&self.cloud.instance(&node.id).await?, open) {
            Vec::new()
        } else {
            self.leave_new(open).await
        };
        self.rebuild_control(node, &open.image, made).await?;
        if self.spec.accounting.is_none() {
            let mariadb = Family::of_image(self.spec, &self.spec.control.image).unit("mariadb.service");
            self.configure_control(Some(&format!("service:{mariadb}")), None).await?;
            let control = self.on_control(&self.observe().await?)?;
            control.script(NEWER_ASIDE, &[&open.directory]).await?;
        }
        self.configure_control(Some(self.first_daemon()), None).await?;
        let control = self.on_control(&self.observe().await?)?;
        (self.progress)(Event::working(&control.host.name, "putting the backup back"));
        control.script(PUT_BACKUP_BACK, &[&open.directory]).await?;
        (self.progress)(Event::done(&control.host.name, "the backup is back"));
        let kept = self.kept_images(&control, open).await?;
        self.configure_control(None, Some(&kept)).await?;
        let before = self.before(&control, open).await?;
        let differences = self.compare(&control, &before).await?;
        for line in differences.into_iter().chain(lost) {
            (self.progress)(Event::failed("upgrade", line));
        }
        self.close_step(&control, open).await?;
        (self.progress)(Event::done("upgrade", format!("Slurm {} is back", old(open))));
        Ok(())
    }

    /// Stops the new daemons. Jobs that only they know of are named; no answer is one, too.
    async fn leave_new(&self, open: &Open) -> Vec<String> {
        let ask = async {
            let control = self.on_control(&self.observe().await?)?;
            let new = match (self.before(&control, open).await, self.now(&control).await) {
                (Ok(before), Ok(now)) => Whole::lost_on_the_way_back(&before, &now),
                _ => Vec::new(),
            };
            let units = self.units_to_stop();
            let argv: Vec<&str> = ["systemctl", "stop", "kilnd.service"].into_iter().chain(units).collect();
            control.run(&argv).await?;
            Ok::<_, crate::Error>(new)
        };
        tokio::time::timeout(ASK_LIMIT, ask).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// For the next run, if this one is cut off.
    pub(super) async fn note_reason(&self, open: &Open, reason: &str) {
        let note = async {
            let control = self.on_control(&self.observe().await?)?;
            control.script_with(NOTE_REASON, &[&open.directory], reason.as_bytes()).await
        };
        // A control node that does not answer is the reason itself.
        let _ = tokio::time::timeout(ASK_LIMIT, note).await;
    }

    /// Why an earlier run has gone back.
    pub(super) async fn noted_reason(&self, open: &Open) -> String {
        let ask = async {
            let control = self.on_control(&self.observe().await.ok()?).ok()?;
            control.run(&["cat", &format!("{}/reason", open.directory)]).await.ok()
        };
        ask.await.unwrap_or_else(|| "the run that failed could not say why".to_string())
    }
}
