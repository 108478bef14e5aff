//! `kiln events`

use clap::Args;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::since::since;
use crate::table::Table;

/// Show what Kiln did on its own: when, to which node, what, why, and with what outcome
#[derive(Debug, Args)]
pub struct Events {
    /// Only events of this node
    node: Option<String>,
    /// Since this time, such as 2026-01-31T09:00:00Z, or since this long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most this many, the newest
    #[arg(long, default_value_t = 200, value_name = "N")]
    most: u32,
}

impl Events {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let since = self.since.as_deref().map(since).transpose()?;
        let events = cluster::with(context, async |deployment| {
            Ok(deployment.events(self.node.as_deref(), since, self.most).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&events)?;
            return Ok(Exit::Ok);
        }
        let mut table = Table::new(["time", "node", "what", "why", "outcome"]);
        for event in events {
            table.row([
                event.time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
                event.node,
                event.what,
                event.why,
                event.outcome,
            ]);
        }
        context.printer.foreign(&table.to_string())?;
        Ok(Exit::Ok)
    }
}
