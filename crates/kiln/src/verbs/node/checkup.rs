//! `kiln node checkup`: whether this node's services work, for `kiln status` and `kiln doctor` to ask.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use kiln_wire::Format as _;
use kiln_wire::checkup::Checkup as Asked;

use crate::context::Context;
use crate::exit::Exit;

/// Answer questions, given as JSON on standard input, about this node's services
#[derive(Debug, Args)]
pub struct Checkup {}

impl Checkup {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut json = Vec::new();
        std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
        context.printer.json(&kiln_node::checkup(&Asked::from_json(&json)?))?;
        Ok(Exit::Ok)
    }
}
