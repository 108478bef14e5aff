//! `kiln node unseal`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kiln_wire::paths;

use crate::context::Context;
use crate::exit::Exit;

/// Check that this node's key opens a sealed bundle; its content is not shown
#[derive(Debug, Args)]
pub struct Unseal {
    bundle: PathBuf,
}

impl Unseal {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let key = std::fs::read_to_string(paths::SEAL_KEY).context("this node has no key")?.into();
        let sender = std::fs::read_to_string(paths::SENDER_KEY).context("this node knows no sender's key")?;
        let sealed =
            std::fs::read(&self.bundle).with_context(|| format!("cannot read {}", self.bundle.display()))?;
        let bundle = kiln_wire::Opened::new(&sealed, &key, &sender)?.bundle()?;
        context.printer.data(format!(
            "bundle of {}: {} resources, {}",
            bundle.node,
            bundle.resources.len(),
            bundle.digest()
        ))?;
        Ok(Exit::Ok)
    }
}
