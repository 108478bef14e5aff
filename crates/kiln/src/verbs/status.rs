//! `kiln status`

use clap::Args;
use kiln_deploy::{NodeStatus, StatusReport};

use crate::age;
use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::table::Table;

/// Show every node: what the cloud says, what Slurm says, whether that is as it should be, and what Kiln does about it
///
/// Exits with 1 if something is wrong.
#[derive(Debug, Args)]
pub struct Status {}

impl Status {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let report = cluster::with(context, async |deployment| Ok(deployment.status().await?))?;
        if context.printer.is_json() {
            context.printer.json(&report)?;
            return Ok(exit(&report));
        }
        context.printer.foreign(&nodes(&report).to_string())?;
        if let Err(sleeps) = report.sleep.check_awake(&report.cluster) {
            let hint = sleeps.hint().unwrap_or_default();
            context.printer.data(format!("{sleeps}; {hint}"))?;
        }
        for node in &report.nodes {
            if let Some(address) = &node.public_address {
                context.printer.data(format!("{} is reached from outside at {address}", node.node))?;
            }
        }
        for stray in &report.strays {
            let does = does(stray.due, &stray.actions, &report);
            let age = age::between(stray.since, report.observed);
            context.printer.data(format!("no node: {}: {}, for {age}{does}", stray.subject, stray.text))?;
        }
        for failing in &report.failing_groups {
            let (group, record, paused) = (&failing.group, &failing.record, failing.is_paused);
            let times =
                if record.failures == 1 { "once" } else { &format!("{} times in a row", record.failures) };
            let until = record.paused_until.filter(|_| paused);
            let state = until.map_or_else(
                || format!("group {group}: failed {times}"),
                |until| format!("group {group}: paused until {}", until.strftime("%Y-%m-%d %H:%M:%S UTC")),
            );
            context.printer.data(format!("{state}: {}", record.problem))?;
        }
        if let Some(error) = &report.slurm_error {
            context.printer.warn(format!("Slurm could not be reached: {error}"));
        }
        if let Some(error) = &report.kilnd_error {
            context.printer.warn(format!("kilnd repairs nothing here at present: {error}"));
        }
        Ok(exit(&report))
    }
}

fn exit(report: &StatusReport) -> Exit {
    if report.is_ok() { Exit::Ok } else { Exit::Failed }
}

fn nodes(report: &StatusReport) -> Table {
    let mut table = Table::new(["node", "group", "address", "image", "cloud", "slurm", "age", "verdict"]);
    for node in &report.nodes {
        table.row([
            node.node.clone(),
            node.group.clone(),
            node.address.clone().unwrap_or_default(),
            node.image.clone().unwrap_or_default(),
            node.cloud.clone(),
            node.slurm.clone().unwrap_or_default(),
            node.since.map(|since| age::between(since, report.observed)).unwrap_or_default(),
            verdict(node, report),
        ]);
    }
    table
}

fn verdict(node: &NodeStatus, report: &StatusReport) -> String {
    // A finding has said the reason where it matters.
    let told = node.verdict == "ok" || node.since.is_some() || node.is_leaving();
    let reason = node.reason.as_ref().filter(|_| !told);
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}{reason}{}", node.verdict, does(node.due, &node.actions, report))
}

fn does(due: Option<jiff::Timestamp>, actions: &[String], report: &StatusReport) -> String {
    due.filter(|_| report.kilnd_error.is_none()).map_or_else(String::new, |due| {
        format!("; Kiln will {}, {}", actions.join(", "), age::until(due, report.observed))
    })
}
