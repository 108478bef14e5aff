//! `kiln schema`

use clap::Args;

use crate::context::Context;
use crate::exit::Exit;

/// Print the JSON schema of the cluster file, for editors
#[derive(Debug, Args)]
pub struct Schema {}

impl Schema {
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)]
    pub fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        // Until kiln_spec::schema is there.
        Ok(Exit::Ok)
    }
}
