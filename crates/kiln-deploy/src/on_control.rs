//! What taking the cluster down, for an upgrade or for the night, asks of the control node, over SSH.

use std::collections::BTreeSet;

use kiln_slurm::{delimiter, squeue_format};
use kiln_ssh::{Host, Ssh};

use crate::configure::slurm_nodes;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::observe::Observed;
use crate::queue::{FIELDS, Queue};

/// Reservations that keep jobs from starting while, or shortly before, the cluster is taken down. While nodes are in one,
/// kilnd leaves them alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    /// While all is rebuilt together.
    Upgrade,
    /// While the control node alone is.
    Step,
    Sleep,
}

impl Reservation {
    pub fn name(self) -> &'static str {
        match self {
            Reservation::Upgrade => "kiln-upgrade",
            Reservation::Step => "kiln-upgrade-step",
            Reservation::Sleep => "kiln-sleep",
        }
    }
}

pub struct OnControl {
    pub(super) ssh: Ssh,
    pub(super) host: Host,
}

impl Deployment<'_> {
    pub(crate) fn on_control(&self, observed: &Observed) -> Result<OnControl> {
        let host = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        Ok(OnControl { ssh: self.ssh()?.patient(), host })
    }
}

impl OnControl {
    /// Runs a script that is part of Kiln.
    pub async fn script(&self, script: &str, arguments: &[&str]) -> Result<String> {
        self.script_with(script, arguments, b"").await
    }

    /// As [`OnControl::script`], with something to read.
    pub async fn script_with(&self, script: &str, arguments: &[&str], stdin: &[u8]) -> Result<String> {
        let argv: Vec<&str> = ["sh", "-c", script, "sh"].iter().chain(arguments).copied().collect();
        let output = self.ssh.output(&self.host, &argv, stdin).await?;
        self.checked(output)
    }

    /// Only root may read it.
    pub async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.script_with("umask 077 && cat >\"$1\" && sync", &[path], content).await.map(drop)
    }

    pub async fn run(&self, argv: &[&str]) -> Result<String> {
        let output = self.ssh.output(&self.host, argv, b"").await?;
        self.checked(output)
    }

    /// A script is not shown in its own error.
    fn checked(&self, output: kiln_ssh::Output) -> Result<String> {
        match output.status {
            0 => Ok(output.stdout),
            _ => Err(crate::Error::NotReady(format!("{}: {}", self.host.name, output.stderr.trim()))),
        }
    }

    pub async fn queue(&self) -> Result<Queue> {
        let delimiter = delimiter();
        let format = squeue_format(&FIELDS, &delimiter);
        // In the order of their numbers.
        let ask = ["squeue", "--all", "--noheader", "--sort=i", &format];
        Ok(Queue::parse(&self.run(&ask).await?, &delimiter))
    }

    /// Once those that are always there are back: slurmctld has just been restarted.
    pub async fn nodes_in_service(&self, deployment: &Deployment<'_>) -> Result<BTreeSet<String>> {
        let fixed = deployment.spec.nodes().filter(|node| !node.elastic);
        let names: Vec<String> = fixed.map(|node| node.name.to_string()).collect();
        let observed = deployment.observe().await?;
        let hosts = deployment.hosts(&observed, names.iter().map(String::as_str))?;
        deployment.wait_for_slurm(&self.ssh, &hosts).await?;
        let nodes = slurm_nodes(&self.ssh, &self.host).await?;
        Ok(nodes.into_values().filter(|node| node.state.in_service()).map(|node| node.name).collect())
    }

    /// `None`: there is none. Otherwise whether it has begun.
    pub async fn reservation_begun(&self, reservation: Reservation) -> Result<Option<bool>> {
        let text = self.run(&["scontrol", "show", "reservation", "--oneliner"]).await?;
        let own = format!("ReservationName={} ", reservation.name());
        let line = text.lines().find(|line| line.starts_with(&own));
        Ok(line.map(|line| line.split_whitespace().any(|word| word == "State=ACTIVE")))
    }

    /// `at`: in Slurm's own words for a time.
    pub async fn reserve(&self, reservation: Reservation, at: &str) -> Result<()> {
        let (name, start) = (format!("ReservationName={}", reservation.name()), format!("StartTime={at}"));
        let words = ["Duration=UNLIMITED", "Users=root", "Nodes=ALL", "Flags=MAINT,IGNORE_JOBS"];
        let argv: Vec<&str> =
            ["scontrol", "create", "reservation", &name, &start].into_iter().chain(words).collect();
        self.run(&argv).await.map(drop)
    }

    pub async fn unreserve(&self, reservation: Reservation) -> Result<()> {
        let name = format!("ReservationName={}", reservation.name());
        self.run(&["scontrol", "delete", &name]).await.map(drop)
    }
}
