//! `kiln logs`

use clap::Args;
use kiln_deploy::{Deployment, LogEntry, LogQuery};
use kiln_spec::hostlist;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::since::since;

/// Show the journals of many nodes together
///
/// Lines of all nodes come in the order of their time, each with its node before it. Exits with 1 if a node could not be read.
#[derive(Debug, Args)]
pub struct Logs {
    /// Only of these nodes: hostlists such as standard-[0-3]
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Only of this unit, such as slurmd; may be given several times
    #[arg(short, long, value_name = "UNIT")]
    unit: Vec<String>,
    /// Since this time, such as 2026-01-31T09:00:00Z, or since this long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most this many of each node, the newest. The default is 20, or all with --since
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<u32>,
    /// Only messages that are at least this important: emerg, alert, crit, err, warning, notice, info or debug
    #[arg(short, long, value_name = "PRIORITY", value_parser = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"])]
    priority: Option<String>,
    /// Go on with what comes, until Ctrl-C
    #[arg(long)]
    follow: bool,
}

const USUAL_LINES: u32 = 20;

impl Logs {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let since = self.since.as_deref().map(since).transpose()?;
        let query = LogQuery {
            units: self.unit.clone(),
            since,
            lines: self.lines.or(since.is_none().then_some(USUAL_LINES)),
            priority: self.priority.clone(),
        };
        let failed = cluster::with(context, async |deployment| {
            let observed = deployment.observe().await?;
            let nodes = self.chosen(deployment, &observed)?;
            let hosts = deployment.hosts(&observed, nodes.iter().map(String::as_str))?;
            if self.follow {
                // Output that was closed ends it: nobody reads any more.
                let show = |entry| {
                    if show(context, &entry).is_err() {
                        deployment.stop.cancel();
                    }
                };
                return Ok(deployment.follow_logs(hosts, &query, show).await?);
            }
            let logs = deployment.logs(hosts, &query).await?;
            if context.printer.is_json() {
                context.printer.json(&logs.entries)?;
            } else {
                logs.entries.iter().try_for_each(|entry| show(context, entry))?;
            }
            Ok(logs.failed)
        })?;
        for (node, why) in &failed {
            let why = why.strip_prefix(&format!("{node} ")).unwrap_or(why);
            context.printer.warn(format!("{node}: {}", crate::harmless::harmless(why)));
        }
        Ok(if failed.is_empty() { Exit::Ok } else { Exit::Failed })
    }

    fn chosen(
        &self,
        deployment: &Deployment<'_>,
        observed: &kiln_deploy::Observed,
    ) -> anyhow::Result<Vec<String>> {
        if self.nodes.is_empty() {
            return Ok(deployment.nodes_up(observed));
        }
        let mut nodes: Vec<String> = Vec::new();
        for list in &self.nodes {
            for node in hostlist::expand(list).exit(Exit::Usage)? {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        Ok(nodes)
    }
}

fn show(context: &Context, entry: &LogEntry) -> anyhow::Result<()> {
    if context.printer.is_json() {
        return context.printer.json_line(entry);
    }
    let time = entry.time.strftime("%Y-%m-%d %H:%M:%S");
    for line in entry.text.lines() {
        context.printer.foreign(&format!("{}: {time} {line}\n", entry.node))?;
    }
    Ok(())
}
