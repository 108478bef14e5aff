//! `kiln status`

use clap::Args;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::table::Table;

/// Show every node: what the cloud says, what Slurm says, and whether that is as it should be
#[derive(Debug, Args)]
pub struct Status {}

impl Status {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let report = cluster::with(context, async |deployment| Ok(deployment.status().await?))?;
        if context.printer.is_json() {
            context.printer.json(&report)?;
            return Ok(Exit::Ok);
        }
        let mut table = Table::new(["node", "group", "address", "image", "cloud", "slurm", "verdict"]);
        for node in &report.nodes {
            table.row([
                node.node.clone(),
                node.group.clone(),
                node.address.clone().unwrap_or_default(),
                node.image.clone().unwrap_or_default(),
                node.cloud.clone(),
                node.slurm.clone().unwrap_or_default(),
                match &node.reason {
                    Some(reason) if node.verdict != "ok" => format!("{} ({reason})", node.verdict),
                    _ => node.verdict.clone(),
                },
            ]);
        }
        context.printer.raw(&table)?;
        if let Some(error) = &report.slurm_error {
            context.printer.warn(format!("Slurm could not be asked: {error}"));
        }
        Ok(Exit::Ok)
    }
}
