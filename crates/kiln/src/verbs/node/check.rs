//! `kiln node check`: what Slurm's health check finds on this node.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Look at this compute node as Slurm's health check does, and tell what is wrong
///
/// Nothing is changed. slurmd runs the same check at intervals, drains the node for what it finds, and ends that drain
/// when nothing is wrong any more.
#[derive(Debug, Args)]
pub struct Check {}

impl Check {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Some(asked) = kiln_node::health::asked() else {
            return Err(anyhow::anyhow!("this node has no health check"))
                .hint("compute nodes get it with their bundle, from `kiln configure`");
        };
        let problems = kiln_node::health::problems(&asked);
        let exit = if problems.is_empty() { Exit::Ok } else { Exit::Failed };
        if context.printer.is_json() {
            context.printer.json(&json!({ "problems": problems }))?;
        } else if problems.is_empty() {
            context.printer.data("healthy")?;
        } else {
            context.printer.data(problems.join("\n"))?;
        }
        Ok(exit)
    }
}
