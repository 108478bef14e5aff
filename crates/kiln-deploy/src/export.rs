//! What is in an image, and a disk from one of the local cloud.

use std::path::Path;

use kiln_cloud::Image;
use kiln_image::{
    DiskFormat, Export, Exported, Fault, Manifest, Recipe, check_export, inspect, inspect_disk,
};
use kiln_wire::labels::image as property;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::targets::BuildOptions;

/// What the disk is to be.
#[derive(Debug)]
pub struct DiskWanted<'a> {
    pub output: &'a Path,
    pub format: DiskFormat,
    /// In bytes.
    pub size: Option<u64>,
    /// Whether the output may exist already.
    pub force: bool,
}

impl Deployment<'_> {
    /// What is in an image and must not be, or is missing.
    pub async fn inspect_image(&self, image: &Image) -> Result<Vec<Fault>> {
        let manifest = Manifest::of(image).ok_or_else(|| Error::ImageNotBuilt(image.name.clone()))?;
        let family = manifest.family();
        if self.spec.cloud.facts().makes_source_images {
            let layers = self.cloud.layers(&image.id).await?;
            return Ok(inspect(&layers, family, &self.stop).await?);
        }
        Ok(inspect_disk(&self.cloud, image, family, self.progress, &self.stop).await?)
    }

    /// What the image lacks to boot by itself is added in an image on top of it, which is kept for the next export.
    pub async fn export_image(&self, image: &Image, wanted: &DiskWanted<'_>) -> Result<Exported> {
        // Asked first, because not every cloud has them.
        self.cloud.layers(&image.id).await?;
        check_export(wanted.output, wanted.force)?;
        let bootable =
            self.ensure_image(&Recipe::bootable(self.spec, image), &BuildOptions::default()).await?;
        self.check_stop()?;
        let layers = self.cloud.layers(&bootable.id).await?;
        let manifest = Manifest::of(&bootable).ok_or_else(|| Error::ImageNotBuilt(bootable.name.clone()))?;
        let export = Export {
            image: &bootable,
            manifest: &manifest,
            name: image.properties.get(property::NAME).unwrap_or(&image.name),
            layers: &layers.directories,
            scratch: &layers.scratch,
            output: wanted.output,
            format: wanted.format,
            size: wanted.size,
            force: wanted.force,
            progress: self.progress,
            stop: &self.stop,
        };
        Ok(export.run().await?)
    }
}
