//! `kiln validate`

use clap::Args;

use crate::context::Context;
use crate::exit::Exit;
use crate::input;

/// Check the cluster file
#[derive(Debug, Args)]
pub struct Validate {
    /// Print the whole specification as JSON, with every default filled in
    #[arg(long)]
    show: bool,
}

impl Validate {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let spec = input::spec(context)?;
        if self.show {
            context.printer.json(&spec)?;
        }
        Ok(Exit::Ok)
    }
}
