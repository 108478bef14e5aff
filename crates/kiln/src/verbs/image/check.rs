//! `kiln image check`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kiln_image::{Fault, inspect_root};
use serde::Serialize;

use super::{find, manifest_of};
use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::harmless::harmless;
use crate::table::Table;

/// Look into an image: whether it is clean and complete
///
/// Clean: no machine id, keys, passwords, caches, logs, histories, and nothing that starts without its cluster. Complete: service users
/// with their fixed numbers, and Kiln's own start-up. Exit code 1 if something is wrong.
///
/// An image of OpenStack is downloaded for it, to a file below /var/tmp or TMPDIR that is gone afterwards; its root has to be ext4.
/// Any other image of a cloud across a network: download it, mount it, and name the directory with --root.
#[derive(Debug, Args)]
pub struct Check {
    /// Its name or id, or its name in the file
    image: String,
    /// Where the image's root file system is mounted on this machine, for an image that Kiln cannot look into by itself
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
}

#[derive(Serialize)]
struct Outcome {
    id: String,
    name: String,
    faults: Vec<Fault>,
}

impl Check {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Outcome { id, name, faults } = cluster::with(context, async |deployment| {
            let image = find(deployment, &self.image).await?;
            let manifest = manifest_of(&image)?;
            let faults = match &self.root {
                Some(root) => inspect_root(root, manifest.family()).with_context(|| {
                    format!("{} cannot be looked into as an image's root", root.display())
                })?,
                None => deployment.inspect_image(&image).await?,
            };
            Ok(Outcome { id: image.id, name: image.name, faults })
        })?;
        let exit = if faults.is_empty() { Exit::Ok } else { Exit::Failed };
        if context.printer.is_json() {
            context.printer.json(&Outcome { id, name, faults })?;
            return Ok(exit);
        }
        if faults.is_empty() {
            context.printer.data(format!("{name}: clean and complete"))?;
            return Ok(exit);
        }
        let mut table = Table::new(["path", "what is wrong"]);
        for fault in &faults {
            table.row([harmless(&fault.path).to_string(), fault.what.to_string()]);
        }
        context.printer.raw(table)?;
        Ok(exit)
    }
}
