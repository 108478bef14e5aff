//! `kiln node`: what runs on a node itself.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::exit::Exit;

/// Work on the node this runs on
#[derive(Debug, Subcommand)]
pub enum Node {
    Apply(Apply),
    Boot(Boot),
    Status(Status),
}

/// Apply a bundle to this node
#[derive(Debug, Args)]
pub struct Apply {
    /// The bundle; `-` reads it from standard input
    #[arg(long, default_value = "-", value_name = "FILE")]
    bundle: PathBuf,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Do what this node does at boot: read its metadata, fetch its bundle, apply it
#[derive(Debug, Args)]
pub struct Boot {}

/// Show what was last applied to this node
#[derive(Debug, Args)]
pub struct Status {}

impl Node {
    #[allow(clippy::needless_pass_by_value)]
    pub fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        // Until kiln-node is there.
        match self {
            Node::Apply(apply) => anyhow::bail!(
                "not connected yet: {apply:?} {:?} {}",
                apply.bundle,
                apply.dry_run
            ),
            Node::Boot(_) | Node::Status(_) => anyhow::bail!("not connected yet"),
        }
    }
}
