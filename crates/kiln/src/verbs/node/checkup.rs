//! `kiln node checkup`: whether this node's services work, for `kiln status` and `kiln doctor` to ask, and for kilnd to show.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use kiln_node::Reader;
use kiln_wire::checkup::Checkup as Asked;
use kiln_wire::{Format as _, paths};

use crate::context::Context;
use crate::exit::Exit;

/// Answer questions, given as JSON on standard input, about this node's services
#[derive(Debug, Args)]
pub struct Checkup {
    /// Answer the questions of this node's own list instead, in a file that only the user and group of this number can read
    #[arg(long, value_name = "NUMBER")]
    report_to: Option<u32>,
    /// That user is on another node: have MUNGE wrap it
    #[arg(long, requires = "report_to")]
    wrapped: bool,
}

impl Checkup {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if let Some(number) = self.report_to {
            let reader = if self.wrapped { Reader::Elsewhere(number) } else { Reader::Here(number) };
            kiln_node::report(Path::new(paths::CHECKUP), Path::new(paths::REPORT), reader)?;
            return Ok(Exit::Ok);
        }
        let mut json = Vec::new();
        std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
        context.printer.json(&kiln_node::checkup(&Asked::from_json(&json)?))?;
        Ok(Exit::Ok)
    }
}
