//! Putting a whole cluster to sleep, and waking it. What costs money stops; what holds data stays: volumes, addresses, the
//! queue, the history.
//!
//! Whether a cluster sleeps is a label on the volume of its share. A reservation for maintenance keeps jobs from starting
//! until it is awake again, and kilnd from mending nodes meanwhile; slurmctld keeps it with its state. So both verbs may
//! be cut off and run again at any point.

mod outlook;
mod start;
mod stop;

use jiff::Timestamp;
use kiln_cloud::{Kind, Labels};
use kiln_image::Event;
use kiln_site::{Purpose, volume_name};
use kiln_slurm::Flag;
use kiln_spec::Spec;
use kiln_wire::labels;
use serde::Serialize;

pub use outlook::{StartOutlook, StopOutlook, Stopping};
pub use start::Started;
pub use stop::Stopped;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::on_control::Reservation;
use crate::slurm_view::SlurmView;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "sleep", rename_all = "kebab-case")]
pub enum Sleep {
    #[default]
    Awake,
    /// No job starts; those that run end first.
    Closing,
    /// Its instances are stopped, or about to be.
    Asleep { since: Option<Timestamp> },
}

impl Sleep {
    const CLOSING: &str = "closing";
    const ASLEEP: &str = "asleep";

    /// `asleep 2026-11-16T20:00:00Z`.
    fn parse(label: &str) -> Sleep {
        match label.split_once(' ').unwrap_or((label, "")) {
            (Sleep::CLOSING, _) => Sleep::Closing,
            (Sleep::ASLEEP, since) => Sleep::Asleep { since: since.parse().ok() },
            _ => Sleep::Awake,
        }
    }

    fn label(self) -> String {
        match self {
            Sleep::Awake => "no".into(),
            Sleep::Closing => Sleep::CLOSING.into(),
            Sleep::Asleep { since: Some(since) } => {
                format!("{} {}", Sleep::ASLEEP, since.strftime("%Y-%m-%dT%H:%M:%SZ"))
            }
            Sleep::Asleep { since: None } => Sleep::ASLEEP.into(),
        }
    }

    pub fn is_asleep(self) -> bool {
        matches!(self, Sleep::Asleep { .. })
    }

    /// Refuses what only a cluster that is awake can do.
    pub fn check_awake(self, cluster: &str) -> Result<()> {
        match self {
            Sleep::Awake => Ok(()),
            Sleep::Closing => Err(Error::Closing(cluster.to_string())),
            Sleep::Asleep { since } => Err(Error::Asleep { cluster: cluster.to_string(), since }),
        }
    }
}

impl Observed {
    pub fn sleep(&self, spec: &Spec) -> Sleep {
        let name = volume_name(spec, Purpose::Share);
        let share = self.volumes.iter().find(|volume| volume.name == name);
        let label = share.and_then(|volume| volume.labels.get(labels::SLEEP));
        label.map(|label| Sleep::parse(label)).unwrap_or_default()
    }
}

impl Deployment<'_> {
    /// Nothing is created, rebuilt or configured while the cluster sleeps.
    pub fn check_awake(&self, observed: &Observed) -> Result<()> {
        observed.sleep(self.spec).check_awake(&self.spec.name)
    }

    async fn mark(&self, observed: &Observed, sleep: Sleep) -> Result<()> {
        let name = volume_name(self.spec, Purpose::Share);
        let share = observed.volumes.iter().find(|volume| volume.name == name);
        let share = share.ok_or_else(|| {
            Error::NotReady(format!("the cluster has no volume {name}: it was never brought up"))
        })?;
        let label = Labels::from([(labels::SLEEP.to_string(), sleep.label())]);
        Ok(self.cloud.label(Kind::Volume, &share.id, label).await?)
    }

    /// The state of a cluster that is awake may be one that was kept while it was about to sleep: from a backup, or from
    /// volumes that outlived a cluster. And a run may have been cut off just before a step to another Slurm began. Jobs would
    /// wait for ever.
    pub(crate) async fn end_old_reservations(&self, observed: &Observed, slurm: &SlurmView) -> Result<()> {
        if !slurm.nodes().any(|node| node.state.flags.has(&Flag::Maintenance)) {
            return Ok(());
        }
        let control = self.on_control(observed)?;
        for old in [Reservation::Sleep, Reservation::Step] {
            if control.reservation_begun(old).await?.is_some() {
                control.unreserve(old).await?;
                (self.progress)(Event::done("slurm", "jobs may start again"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_whether_the_cluster_sleeps() {
        let since = "2026-11-16T20:00:00Z".parse().ok();
        for sleep in [Sleep::Awake, Sleep::Closing, Sleep::Asleep { since }, Sleep::Asleep { since: None }] {
            assert_eq!(Sleep::parse(&sleep.label()), sleep);
        }
        assert_eq!(Sleep::Asleep { since }.label(), "asleep 2026-11-16T20:00:00Z");
        assert_eq!(Sleep::parse("asleep when?"), Sleep::Asleep { since: None });
        assert_eq!(Sleep::parse(""), Sleep::Awake);
    }

    #[test]
    fn who_sleeps_is_told_what_to_do() {
        let since = "2026-11-16T20:00:00Z".parse().ok();
        let refused = Sleep::Asleep { since }.check_awake("demo").unwrap_err();
        assert_eq!(refused.to_string(), "cluster demo is asleep since 2026-11-16 20:00 UTC");
        assert_eq!(refused.hint().unwrap(), "`kiln start` wakes it");
        assert!(Sleep::Closing.check_awake("demo").unwrap_err().hint().unwrap().contains("`kiln stop`"));
        assert!(Sleep::Awake.check_awake("demo").is_ok());
    }
}
