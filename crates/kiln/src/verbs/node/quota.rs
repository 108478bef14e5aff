//! `kiln node quota`: reads and sets users' quotas on this control node, for `kiln quota` to ask.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use kiln_wire::Format as _;
use kiln_wire::quota::QuotaRequest;

use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Carry out a request about quotas, given as JSON on standard input
#[derive(Debug, Args)]
pub struct Quota {}

impl Quota {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut json = Vec::new();
        std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
        match kiln_node::quota::carry_out(&QuotaRequest::from_json(&json)?) {
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
