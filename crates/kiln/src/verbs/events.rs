//! `kiln events`

use anyhow::anyhow;
use clap::Args;
use jiff::Timestamp;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
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

fn since(text: &str) -> anyhow::Result<Timestamp> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = kiln_spec::duration(text).and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    ago.ok_or_else(|| anyhow!("--since takes a time or a duration, not {text:?}"))
        .exit(Exit::Usage)
        .hint("such as 2026-01-31T09:00:00Z, 90m or 1d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_duration() {
        assert_eq!(since("2026-01-31T09:00:00Z").ok(), "2026-01-31T09:00:00Z".parse().ok());
        let hour = std::time::Duration::from_secs(3600);
        let (before, time, after) = (Timestamp::now(), since("1h").unwrap(), Timestamp::now());
        assert!(before - hour <= time && time <= after - hour, "{time}");
        for wrong in ["", "yesterday", "-1h", "1"] {
            assert!(since(wrong).is_err(), "{wrong:?}");
        }
    }
}
