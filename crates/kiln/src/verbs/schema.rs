//! `kiln schema`

use clap::Args;

use crate::context::Context;
use crate::exit::Exit;

/// Print the JSON schema of the cluster file, for editors
#[derive(Debug, Args)]
pub struct Schema {}

impl Schema {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        context.printer.json(&kiln_spec::schema())?;
        Ok(Exit::Ok)
    }
}
