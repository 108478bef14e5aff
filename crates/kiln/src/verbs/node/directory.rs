//! `kiln node directory`: changes users of the directory on this control node, for `kiln user` to ask.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use kiln_wire::Format as _;
use kiln_wire::directory::DirectoryRequest;

use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Carry out a request to the directory, given as JSON on standard input
#[derive(Debug, Args)]
pub struct Directory {}

impl Directory {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut json = Vec::new();
        std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
        match kiln_node::directory::carry_out(&DirectoryRequest::from_json(&json)?) {
            Ok(answer) => context.printer.json(&answer)?,
            Err(error) => {
                let hint = error.hint();
                let failed = Err(anyhow::Error::new(error));
                return match hint {
                    Some(hint) => failed.hint(hint),
                    None => failed,
                };
            }
        }
        Ok(Exit::Ok)
    }
}
