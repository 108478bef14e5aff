//! `kiln node directory`: changes users of the directory on this control node, for `kiln user` to ask.

use clap::Args;
use kiln_node::directory::DirectoryError;

use super::request;
use crate::context::Context;
use crate::exit::Exit;

/// Carry out a request to the directory, given as JSON on standard input
#[derive(Debug, Args)]
pub struct Directory {}

impl Directory {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        request::carry_out(context, kiln_node::directory::carry_out, DirectoryError::hint)
    }
}
