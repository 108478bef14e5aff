//! `kiln image sync`

use std::time::Duration;

use clap::Args;
use kiln_deploy::{Snapshotting, SourceSnapshot};
use kiln_spec::SNAPSHOTS_FILE;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::input;
use crate::table::Table;

/// Have the Pulp server fetch what is new, and choose snapshots of it to build from
///
/// The new snapshots are written to `snapshots.toml` beside the cluster file. Review it and commit it; the next
/// `kiln image build` builds from them. Where nothing is new, nothing changes.
#[derive(Debug, Args)]
pub struct Sync {
    /// Only these sources. Default: all on the server whose snapshot the file does not fix
    sources: Vec<String>,
    /// Show what would be synced. Nothing is changed, here or on the server
    #[arg(long)]
    dry_run: bool,
    /// Give up after this time and cancel what the server does, e.g. `90m` or `2h`
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    kiln_spec::duration(text).ok_or_else(|| "expected a time such as 90s, 30m or 2h".to_string())
}

impl Sync {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let spec = input::spec(context)?;
        let reports = cluster::shown(context, async |progress, stop| {
            let snapshotting = Snapshotting::open(&spec, &context.file, progress)?;
            let sources = snapshotting.sources(&self.sources)?;
            let reports = if self.dry_run {
                snapshotting.outlook(&sources).await?
            } else {
                snapshotting.sync(&sources, self.timeout, &stop).await?
            };
            Ok(reports)
        })?;
        for report in reports.iter().filter(|report| report.on_demand) {
            context.printer.warn(format!(
                "the server fetches packages of {} when they are asked for: its snapshots lose what upstream loses. Set its \
                 remote's policy to `immediate`",
                report.source
            ));
        }
        print(context, &reports)?;
        let changed = reports.iter().filter(|report| report.changes()).count();
        context.printer.say(match (self.dry_run, changed) {
            (true, _) => "nothing was changed".to_string(),
            (false, 0) => format!("{SNAPSHOTS_FILE} is unchanged"),
            (false, _) => format!("{SNAPSHOTS_FILE} is changed: review and commit it"),
        });
        Ok(Exit::Ok)
    }
}

fn print(context: &Context, reports: &[SourceSnapshot]) -> anyhow::Result<()> {
    if context.printer.is_json() {
        return context.printer.json(&reports);
    }
    let mut table = Table::new(["source", "snapshot now", "next", "from"]);
    for report in reports {
        let next = match (&report.after, &report.newest) {
            (None, None) => "what a sync finds".to_string(),
            (None, Some(newest)) => format!("{newest}, or what a sync finds"),
            (after, _) if *after == report.before => "the same".to_string(),
            (Some(after), _) => after.clone(),
        };
        let from = report.upstream.as_deref().unwrap_or("the server's newest");
        let now = report.before.as_deref().unwrap_or("none");
        table.row([report.source.clone(), now.to_string(), next, from.to_string()]);
    }
    Ok(context.printer.raw(&table)?)
}
