//! `kiln node status`

use std::path::Path;

use clap::Args;
use kiln_wire::AppliedResult;

use crate::context::Context;
use crate::error::Advise;
use crate::exit::Exit;

/// Show what was last applied to this node
#[derive(Debug, Args)]
pub struct Status {}

impl Status {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Some(applied) = kiln_node::applied(Path::new("/")) else {
            return Err(anyhow::anyhow!("no bundle was applied to this node yet"))
                .hint("`kiln configure` on the deploy host sends one");
        };
        if context.printer.is_json() {
            context.printer.json(&applied)?;
        } else {
            let result = match applied.result {
                AppliedResult::Ok => "ok",
                AppliedResult::Failed => "failed",
            };
            context.printer.data(format_args!(
                "node     {}\nrole     {}\ncluster  {}\nbundle   {}\napplied  {}\nresult   {result}",
                applied.node, applied.role, applied.cluster, applied.digest, applied.time
            ))?;
        }
        Ok(Exit::Ok)
    }
}
