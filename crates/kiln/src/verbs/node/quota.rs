//! `kiln node quota`: reads and sets users' quotas on this control node, for `kiln quota` to ask.

use clap::Args;
use kiln_node::quota::QuotaError;

use super::request;
use crate::context::Context;
use crate::exit::Exit;

/// Carry out a request about quotas, given as JSON on standard input
#[derive(Debug, Args)]
pub struct Quota {}

impl Quota {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        request::carry_out(context, kiln_node::quota::carry_out, QuotaError::hint)
    }
}
