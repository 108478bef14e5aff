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
    #[allow(clippy::needless_pass_by_value)]
    pub fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        // Until kiln_cloud::local is there.
        match self {
            Local::Daemon { root: path } | Local::Instance { dir: path } => {
                anyhow::bail!("not connected yet: {}", path.display())
            }
        }
    }
}
