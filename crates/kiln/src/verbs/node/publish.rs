//! `kiln node publish` and `kiln node published`: the share, on the control node.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use kiln_wire::{Format as _, Publication};

use crate::context::Context;
use crate::exit::Exit;

/// Print which bundles are on the share
#[derive(Debug, Args)]
pub struct Published {}

/// Put sealed bundles, given as JSON on standard input, on the share
#[derive(Debug, Args)]
pub struct Publish {}

impl Published {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let kiln = std::env::current_exe().context("cannot find the running binary")?;
        context.printer.json(&kiln_wire::published(Path::new(kiln_wire::paths::SHARE), &kiln))?;
        Ok(Exit::Ok)
    }
}

impl Publish {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        let mut json = Vec::new();
        std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
        let publication = Publication::from_json(&json)?;
        let kiln = std::env::current_exe().context("cannot find the running binary")?;
        kiln_wire::publish(Path::new(kiln_wire::paths::SHARE), &publication, &kiln)?;
        Ok(Exit::Ok)
    }
}
