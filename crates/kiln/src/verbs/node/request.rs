//! Requests of the deploy host to this node: JSON on standard input, the answer on standard output.

use std::io::Read as _;

use anyhow::Context as _;
use kiln_wire::Format;

use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Carries out the request on standard input, and prints the answer. `hint`: what to say to an error.
pub fn carry_out<R: Format, A: serde::Serialize, E: std::error::Error + Send + Sync + 'static>(
    context: &Context,
    deed: impl FnOnce(&R) -> Result<A, E>,
    hint: impl FnOnce(&E) -> Option<&'static str>,
) -> anyhow::Result<Exit> {
    let mut json = Vec::new();
    std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
    match deed(&R::from_json(&json)?) {
        Ok(answer) => context.printer.json(&answer).map(|()| Exit::Ok),
        Err(error) => {
            let hint = hint(&error);
            let failed = Err(anyhow::Error::new(error));
            match hint {
                Some(hint) => failed.hint(hint),
                None => failed,
            }
        }
    }
}
