//! `kiln notify`

use anyhow::anyhow;
use clap::{Args, Subcommand};
use kiln_wire::notify::NotifyReport;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::table::Table;

/// Work on who is told when something matters
#[derive(Debug, Subcommand)]
pub enum Notify {
    Test(Test),
}

/// Send a message to everybody in [notify], and tell whether it was accepted
///
/// The control node sends it at once, with what the last `kiln configure` brought there.
#[derive(Debug, Args)]
pub struct Test {}

impl Notify {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Notify::Test(verb) => verb.run(context),
        }
    }
}

impl Test {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let reports = cluster::with(context, async |deployment| {
            if deployment.spec.notify.is_none() {
                return Err(anyhow!("the cluster file has no [notify]"))
                    .exit(Exit::Usage)
                    .hint("docs/notify.md says what goes there");
            }
            Ok(deployment.test_notify().await?)
        })?;
        show(context, &reports)?;
        let failed = reports.iter().any(|report| report.problem.is_some());
        Ok(if failed { Exit::Failed } else { Exit::Ok })
    }
}

fn show(context: &Context, reports: &[NotifyReport]) -> anyhow::Result<()> {
    if context.printer.is_json() {
        return context.printer.json(&reports);
    }
    let mut table = Table::new(["to", "result"]);
    for report in reports {
        let result =
            report.problem.as_ref().map_or_else(|| "accepted".into(), |why| format!("failed: {why}"));
        table.row([report.channel.clone(), result]);
    }
    context.printer.raw(&table)?;
    Ok(())
}
