//! The steps of waking a cluster, each of which may be repeated.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kiln_image::Event;
use kiln_slurm::{BOOT_TIME_ROUNDING, Node, parse_nodes};
use kiln_spec::{Role, hostlist};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::Sleep;
use super::outlook::{StartOutlook, start_outlook};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::on_control::{OnControl, Reservation};

/// What is mounted again is there before what needs it. The last line is the clock by which Slurm tells when nodes booted.
const START_DAEMONS: &str =
    r#"mount --all; systemctl start "$@" kilnd.service && scontrol show partition >/dev/null && date +%s"#;
/// The control node's exports may not have been there when it booted.
const MOUNT: [&str; 4] = ["mount", "--all", "--types", "nfs,nfs4"];

/// How long the control node may take to boot, and its services to start: a large database takes its time.
const CONTROL_LIMIT: Duration = Duration::from_secs(900);
/// How long nodes may take to boot and to join.
const NODES_LIMIT: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
pub struct Started {
    pub cluster: String,
    /// Nodes that were started.
    pub started: Vec<String>,
    /// Compute nodes that are drained or down by somebody's word; they stay so.
    pub out_of_service: Vec<String>,
    /// Jobs in the queue.
    pub jobs: usize,
}

impl Deployment<'_> {
    /// Changes nothing.
    pub async fn start_outlook(&self) -> Result<StartOutlook> {
        let observed = self.observe().await?;
        self.check_owner(&observed)?;
        if observed.instances.is_empty() && observed.sleep(self.spec) == Sleep::Awake {
            return Err(Error::NoInstance(self.spec.control.node.clone()));
        }
        Ok(start_outlook(self.spec, &observed))
    }

    pub async fn start_cluster(&self, outlook: &StartOutlook) -> Result<Started> {
        outlook.check()?;
        if outlook.control_lost {
            self.mark(&self.observe().await?, Sleep::Awake).await?;
            return Err(Error::ControlLost(self.spec.control.node.clone()));
        }
        self.check_stop()?;
        self.start(outlook.control.as_slice()).await?;
        self.check_stop()?;
        // The way to the control node may lead through them.
        self.start(&outlook.login).await?;
        let observed = self.observe().await?;
        let control = self.on_control(&observed)?;
        let now = self.control_serves(&control).await?;
        self.check_stop()?;
        self.start(&outlook.compute).await?;
        self.logins_serve(outlook, &observed).await?;
        let joined = self.join(&observed, outlook, now).await;
        if matches!(joined, Err(Error::Stopped)) {
            return Err(Error::Stopped);
        }
        // Those that are back have work to do, whatever became of the others.
        if control.reservation_begun(Reservation::Sleep).await?.is_some() {
            control.unreserve(Reservation::Sleep).await?;
        }
        self.mark(&observed, Sleep::Awake).await?;
        (self.progress)(Event::done("slurm", "jobs may start again"));
        let out_of_service = joined?;
        let queue = control.queue().await?;
        let started = outlook.control.iter().chain(&outlook.login).chain(&outlook.compute);
        Ok(Started {
            cluster: self.spec.name.clone(),
            started: started.map(|node| node.node.clone()).collect(),
            out_of_service,
            jobs: queue.running.len() + queue.waiting.len(),
        })
    }

    /// Waits until slurmctld answers; the time on the control node then.
    async fn control_serves(&self, control: &OnControl) -> Result<Timestamp> {
        let name = &self.spec.control.node;
        let mut units = self.units_to_stop();
        units.reverse();
        let start = Instant::now();
        loop {
            self.check_stop()?;
            let error = match control.script(START_DAEMONS, &units).await {
                Ok(text) => {
                    (self.progress)(Event::done(name, "Slurm's daemons run"));
                    let second = text.trim().lines().last().and_then(|line| line.parse().ok());
                    return Ok(second
                        .and_then(|s| Timestamp::from_second(s).ok())
                        .unwrap_or_else(Timestamp::now));
                }
                Err(error) => error,
            };
            if start.elapsed() > CONTROL_LIMIT {
                return Err(error);
            }
            (self.progress)(Event::working(name, "waiting until Slurm's daemons run"));
            self.pause().await?;
        }
    }

    async fn pause(&self) -> Result<()> {
        self.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.ok_or(Error::Stopped)
    }

    async fn logins_serve(&self, outlook: &StartOutlook, observed: &Observed) -> Result<()> {
        let ssh = self.ssh()?;
        let names = outlook.login.iter().map(|node| node.node.as_str());
        let names = names.filter(|name| self.spec.node(name).is_some());
        for host in self.hosts(observed, names)? {
            self.check_stop()?;
            (self.progress)(Event::working(&host.name, "booting"));
            let output = ssh.wait_output(&host, &MOUNT, NODES_LIMIT).await?;
            if output.status != 0 {
                let said = output.stderr.trim();
                return Err(Error::NotReady(format!("{}: {said}", host.name)));
            }
            (self.progress)(Event::done(&host.name, "answers"));
        }
        Ok(())
    }

    /// Waits until Slurm has the nodes back; those that somebody else has taken out of service. `now`: when they were
    /// started, by the control node's clock: what Slurm says of a node from before means nothing.
    async fn join(&self, observed: &Observed, outlook: &StartOutlook, now: Timestamp) -> Result<Vec<String>> {
        let fixed = self.spec.nodes().filter(|node| node.role == Role::Compute && !node.elastic);
        let instances = observed.nodes();
        let wanted: Vec<&str> = fixed.map(|node| node.name).filter(|n| instances.contains_key(n)).collect();
        let started: BTreeSet<&str> = outlook.compute.iter().map(|node| node.node.as_str()).collect();
        let since = |name: &str| started.contains(name).then_some(now);
        let start = Instant::now();
        let mut resumed = BTreeSet::new();
        loop {
            self.check_stop()?;
            let text = self.run_slurm(observed, &["scontrol", "show", "node", "--oneliner"]).await;
            let known = text.map(|text| parse_nodes(&text)).unwrap_or_default();
            let judged = wanted.iter().map(|name| {
                let node = known.get(*name);
                (*name, node.map_or(Return::Awaited, |node| judge(node, since(name))))
            });
            let judged: Vec<(&str, Return)> = judged.collect();
            let those =
                |which: Return| judged.iter().filter(move |(_, r)| *r == which).map(|(name, _)| *name);
            for name in those(Return::Accident).filter(|name| !resumed.contains(*name)).collect::<Vec<_>>() {
                let node = format!("nodename={name}");
                self.run_slurm(observed, &["scontrol", "update", &node, "state=resume"]).await?;
                resumed.insert(name.to_string());
            }
            let awaited: Vec<&str> = those(Return::Awaited).chain(those(Return::Accident)).collect();
            if awaited.is_empty() {
                let serving = hostlist::fold(those(Return::Back));
                if !serving.is_empty() {
                    (self.progress)(Event::done(serving, "in service"));
                }
                return Ok(those(Return::OutOfService).map(String::from).collect());
            }
            if start.elapsed() > NODES_LIMIT {
                let describe = |name: &&str| match known.get(*name) {
                    Some(node) => format!(
                        "  {name} is {}: {}",
                        node.state,
                        node.reason.as_deref().unwrap_or("it has not joined since it was started")
                    ),
                    None => format!("  {name} is unknown to slurmctld"),
                };
                let details: Vec<String> = awaited.iter().map(describe).collect();
                return Err(Error::NotReady(format!(
                    "the cluster is awake, but Slurm does not see these nodes in service:\n{}",
                    details.join("\n")
                )));
            }
            (self.progress)(Event::working("slurm", format!("waiting for {}", hostlist::fold(awaited))));
            self.pause().await?;
        }
    }
}

/// Whether a node is back from sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    Back,
    Awaited,
    /// Slurm knows nothing of the sleep, and takes the boot for an accident.
    Accident,
    /// By the word of somebody else, who ends it.
    OutOfService,
}

/// `started`: when, where it was.
fn judge(node: &Node, started: Option<Timestamp>) -> Return {
    let booted = started.is_none_or(|at| node.booted.is_some_and(|booted| booted + BOOT_TIME_ROUNDING >= at));
    if node.state.is_drained() {
        Return::OutOfService
    } else if node.is_down_for_unexpected_reboot() {
        Return::Accident
    } else if node.is_set_down_by_others() || node.state.is_awaited_by_slurm() {
        Return::OutOfService
    } else if booted && node.state.in_service() {
        Return::Back
    } else {
        Return::Awaited
    }
}

#[cfg(test)]
mod tests {
    use kiln_slurm::parse_node;

    use super::*;

    #[test]
    fn every_way_to_come_back() {
        let at: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
        let rows = [
            ("State=IDLE+MAINTENANCE+RESERVED BootTime=2026-11-16T08:00:20", Return::Back),
            // From before the night.
            ("State=IDLE+MAINTENANCE BootTime=2026-11-15T08:00:20", Return::Awaited),
            ("State=IDLE+NOT_RESPONDING BootTime=2026-11-16T08:00:20", Return::Awaited),
            (
                "State=DOWN BootTime=2026-11-16T08:00:20 Reason=Node unexpectedly rebooted [slurm@2026-11-16T08:00:21]",
                Return::Accident,
            ),
            (
                "State=DOWN+DRAIN BootTime=2026-11-16T08:00:20 Reason=fan [root@2026-11-15T09:00:00]",
                Return::OutOfService,
            ),
            (
                "State=IDLE+DRAIN BootTime=2026-11-15T08:00:20 Reason=fan [root@2026-11-15T09:00:00]",
                Return::OutOfService,
            ),
            (
                "State=DOWN BootTime=2026-11-16T08:00:20 Reason=disk [root@2026-11-15T09:00:00]",
                Return::OutOfService,
            ),
        ];
        for (line, expected) in rows {
            let node = parse_node(&format!("NodeName=n-0 {line}")).unwrap();
            assert_eq!(judge(&node, Some(at)), expected, "{line}");
        }
        // It never was off: when it booted says nothing.
        let node = parse_node("NodeName=n-0 State=IDLE BootTime=2026-11-15T08:00:20").unwrap();
        assert_eq!(judge(&node, None), Return::Back);
    }
}
