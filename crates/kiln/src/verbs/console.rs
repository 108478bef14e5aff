//! `kiln console`

use clap::Args;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Show the end of a node's console log
///
/// The cloud keeps it, so it can be read even when the node cannot be reached.
#[derive(Debug, Args)]
pub struct Console {
    node: String,
    /// How many lines
    #[arg(short = 'n', long, default_value_t = 50, value_name = "N")]
    lines: usize,
}

impl Console {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let text = cluster::with(context, async |deployment| {
            Ok(deployment.console_log(&self.node, self.lines).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&serde_json::json!({ "node": self.node, "console": text }))?;
        } else {
            context.printer.foreign(&text)?;
        }
        Ok(Exit::Ok)
    }
}
