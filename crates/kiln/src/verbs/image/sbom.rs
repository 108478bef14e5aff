//! `kiln image sbom`

use clap::Args;

use super::{find, manifest_of};
use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Print an image's software bill of materials, as SPDX 2.3 in JSON
#[derive(Debug, Args)]
pub struct Sbom {
    /// Its name or id, or its name in the file
    image: String,
}

impl Sbom {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let sbom = cluster::with(context, async |deployment| {
            let image = find(deployment, &self.image).await?;
            Ok(kiln_image::Sbom::of(&image.name, &manifest_of(&image)?))
        })?;
        context.printer.json(&sbom)?;
        Ok(Exit::Ok)
    }
}
