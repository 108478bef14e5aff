//! `kiln local`: the processes of the local cloud. Kiln starts them itself; they are not for people.

use std::path::PathBuf;

use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;

/// Processes of the local cloud
#[derive(Debug, Subcommand)]
pub enum Local {
    /// Serve the local cloud
    Daemon {
        /// Where the cloud keeps everything
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
    },
    /// Run one instance
    Instance {
        /// The instance's directory
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
}

impl Local {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Local::Daemon { root } => {
                context.block_on(async { Ok(kiln_cloud::local::serve(&root).await?) })?;
                Ok(Exit::Ok)
            }
            // Without a runtime: it changes namespaces, which threads would get in the way of.
            Local::Instance { dir } => match kiln_cloud::local::run_instance(&dir)? {
                0 => Ok(Exit::Ok),
                _ => Ok(Exit::Failed),
            },
        }
    }
}
