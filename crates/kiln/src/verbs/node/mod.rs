//! `kiln node`: what runs on a node itself.

mod apply;
mod boot;
mod report;
mod status;

use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;

/// Work on the node this runs on
#[derive(Debug, Subcommand)]
pub enum Node {
    Apply(apply::Apply),
    Boot(boot::Boot),
    Status(status::Status),
}

impl Node {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Node::Apply(verb) => verb.run(context),
            Node::Boot(verb) => verb.run(context),
            Node::Status(verb) => verb.run(context),
        }
    }
}
