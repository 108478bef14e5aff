//! Gives the new Slurm what the old one had: QOS, users, accounts, limits, drained nodes, the numbers of jobs. Then
//! looks whether all of it is there and jobs run.

use std::time::{Duration, Instant};

use kiln_image::Event;
use kiln_slurm::parse_nodes;
use serde::Serialize;
use tokio::time::sleep;

use super::limits::{QOS_FIELDS, lost, qos};
use super::steps::LIST;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::on_control::OnControl;

const JOB_IDS: &str = include_str!("scripts/job-ids.sh");
const TEST_JOB: &str = include_str!("scripts/test-job.sh");

/// How long slurmctld may take to tell slurmdbd of its cluster.
const REGISTER_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Default, Serialize)]
pub struct Restored {
    /// Lines about users, accounts, limits and QOS that are as they were.
    pub accounts: usize,
    pub drained: Vec<String>,
    /// Partitions in which a job has run.
    pub tested: Vec<String>,
    /// What did not work and harms nobody.
    pub warnings: Vec<String>,
}

impl Deployment<'_> {
    pub(super) async fn restore(&self, control: &OnControl, directory: &str) -> Result<Restored> {
        let read = async |name: &str| control.run(&["cat", &format!("{directory}/{name}")]).await;
        let before = read("accounts.txt").await?;
        let mut restored = Restored { accounts: before.lines().count(), ..Restored::default() };
        (self.progress)(Event::working("accounts", "loading users, accounts and limits"));
        self.load_accounts(control, directory, &before).await?;
        (self.progress)(Event::done("accounts", "users, accounts and limits are as before"));
        restored.drained = self.drain_again(control, &read("nodes.txt").await?).await?;
        let next = read("next-job-id").await?;
        restored.warnings.extend(self.continue_job_ids(control, next.trim()).await);
        self.try_jobs(control, &mut restored).await?;
        Ok(restored)
    }

    async fn load_accounts(&self, control: &OnControl, directory: &str, before: &str) -> Result<()> {
        let cluster = format!("cluster={}", self.spec.name);
        let start = Instant::now();
        while control
            .run(&["sacctmgr", "--noheader", "show", &cluster])
            .await
            .is_ok_and(|t| t.trim().is_empty())
        {
            if start.elapsed() > REGISTER_LIMIT {
                return Err(Error::NotReady("slurmctld has not registered its cluster with slurmdbd".into()));
            }
            sleep(Duration::from_millis(300)).await;
        }
        let fields = QOS_FIELDS.join(",");
        let now = control.script(LIST, &[&self.spec.name, &fields]).await?;
        let there: Vec<String> = qos(&now).into_iter().map(|qos| qos.name).collect();
        let wanted = qos(before);
        for qos in wanted.iter().filter(|qos| !there.contains(&qos.name)) {
            control.run(&["sacctmgr", "--immediate", "add", "qos", &qos.name]).await?;
        }
        // Only now: one may name another.
        for qos in wanted.iter().filter(|qos| !qos.settings.is_empty()) {
            let name = format!("name={}", qos.name);
            let words = ["sacctmgr", "--immediate", "modify", "qos", "where", &name, "set"];
            let settings = qos.settings.iter().map(String::as_str);
            let argv: Vec<&str> = words.into_iter().chain(settings).collect();
            // One that is so already is not modified, which sacctmgr calls an error. The comparison tells.
            let _ = control.run(&argv).await;
        }
        let file = format!("file={directory}/accounts.cfg");
        let loaded = control.run(&["sacctmgr", "--immediate", "load", &file]).await;
        let after = control.script(LIST, &[&self.spec.name, &fields]).await?;
        let lost = lost(before, &after);
        if lost.is_empty() {
            return Ok(());
        }
        let said =
            loaded.err().map(|error| format!("; sacctmgr load said: {}", error.chain())).unwrap_or_default();
        let lines: Vec<String> = lost.iter().map(|line| format!("\n  {line}")).collect();
        Err(Error::NotReady(format!("these accounts or limits are not as before{said}:{}", lines.concat())))
    }

    /// Those that people had drained.
    async fn drain_again(&self, control: &OnControl, nodes: &str) -> Result<Vec<String>> {
        let drained = parse_nodes(nodes).into_values().filter(kiln_slurm::Node::is_drained_by_others);
        let drained: Vec<_> = drained.filter(|node| self.spec.node(&node.name).is_some()).collect();
        for node in &drained {
            let reason = node.reason.as_deref().unwrap_or("drained before the upgrade");
            let (name, reason) = (format!("NodeName={}", node.name), format!("Reason={reason}"));
            control.run(&["scontrol", "update", &name, "State=DRAIN", &reason]).await?;
        }
        Ok(drained.into_iter().map(|node| node.name).collect())
    }

    async fn continue_job_ids(&self, control: &OnControl, next: &str) -> Option<String> {
        let partition = self.spec.partitions.first()?;
        let done = control.script(JOB_IDS, &[next, &partition.name]).await;
        done.err().map(|error| format!("the numbers of jobs do not go on at {next}: {}", error.chain()))
    }

    /// One job in each partition that has a node in service.
    async fn try_jobs(&self, control: &OnControl, restored: &mut Restored) -> Result<()> {
        let nodes = control.nodes_in_service(self).await?;
        for partition in &self.spec.partitions {
            let groups = partition.groups.iter().filter_map(|name| self.spec.compute_group(name));
            if !groups.flat_map(|group| &group.nodes).any(|node| nodes.contains(node)) {
                continue;
            }
            let name = partition.name.as_str();
            (self.progress)(Event::working("test jobs", format!("partition {name}")));
            match control.script(TEST_JOB, &[name]).await?.trim() {
                "COMPLETED" => restored.tested.push(name.to_string()),
                said => match said.strip_prefix("refused: ") {
                    Some(why) => restored.warnings.push(format!("no test job in {name}: {why}")),
                    None => return Err(Error::NotReady(format!("a test job in {name} ended {said}"))),
                },
            }
        }
        (self.progress)(Event::done("test jobs", format!("ran in {}", restored.tested.join(", "))));
        Ok(())
    }
}
