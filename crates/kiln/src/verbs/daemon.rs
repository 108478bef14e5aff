//! `kiln daemon`

use clap::Args;

use crate::context::Context;
use crate::exit::Exit;

/// Run kilnd: answer Slurm's hooks and drive rollouts, on the control node
#[derive(Debug, Args)]
pub struct Daemon {}

impl Daemon {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        context.block_on(async { Ok(kiln_fleet::run(kiln_fleet::DaemonConfig::default()).await?) })?;
        Ok(Exit::Ok)
    }
}
