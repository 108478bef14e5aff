//! `kiln node install-units`

use std::path::Path;

use anyhow::Context as _;
use clap::Args;

use crate::context::Context;
use crate::exit::Exit;

/// Put Kiln's systemd units into this system, enabled; part of an image build
#[derive(Debug, Args)]
pub struct InstallUnits {}

impl InstallUnits {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        kiln_node::units::install(Path::new("/")).context("cannot install the units")?;
        Ok(Exit::Ok)
    }
}
