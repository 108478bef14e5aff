//! `kiln plan`

use clap::Args;
use kiln_deploy::Removal;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Show what `apply` would change in the cloud
#[derive(Debug, Args)]
pub struct Plan {
    /// Exit with 3 when there is something to change
    #[arg(long)]
    detailed_exitcode: bool,
}

impl Plan {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let plan =
            cluster::with(context, async |deployment| Ok(deployment.plan(Removal::AfterJobs).await?))?;
        if context.printer.is_json() {
            context.printer.json(&plan)?;
        } else {
            context.printer.data(&plan)?;
        }
        let changes = self.detailed_exitcode && !plan.is_empty();
        Ok(if changes { Exit::Changes } else { Exit::Ok })
    }
}
