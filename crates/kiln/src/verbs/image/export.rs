//! `kiln image export`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use kiln_cloud::Image;
use kiln_deploy::{Deployment, DiskWanted};
use kiln_image::DiskFormat;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::size::size;

/// Make a disk that boots from an image of the local cloud
///
/// The disk has a kernel, boots by BIOS and by EFI, gets its address by DHCP, reads its config drive and grows to the size
/// that the cloud gives it. Beside it is FILE.kiln.json, from which `kiln image upload` knows what is in it.
#[derive(Debug, Args)]
pub struct Export {
    /// Its name or id, or its name in the file
    image: String,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Default: by the ending of the file, else qcow2
    #[arg(long)]
    format: Option<FormatName>,
    /// The size of the disk, such as "8 GiB". Default: what the image needs
    #[arg(long, value_parser = size)]
    size: Option<u64>,
    /// Overwrite the file
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormatName {
    /// Compressed with zlib, which every QEMU reads
    Qcow2,
    /// Compressed with zstd: much faster, for QEMU 5.1 and later
    Qcow2Zstd,
    /// Not compressed
    Raw,
}

impl Export {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let format = match self.format {
            Some(FormatName::Qcow2) => DiskFormat::Qcow2,
            Some(FormatName::Qcow2Zstd) => DiskFormat::Qcow2Zstd,
            Some(FormatName::Raw) => DiskFormat::Raw,
            None => by_ending(&self.output),
        };
        let output = std::path::absolute(&self.output)?;
        let exported = cluster::with(context, async |deployment| {
            let image = find(deployment, &self.image).await?;
            let wanted = DiskWanted { output: &output, format, size: self.size, force: self.force };
            Ok(deployment.export_image(&image, &wanted).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&exported)?;
            return Ok(Exit::Ok);
        }
        context.printer.data(format!("disk:    {}", exported.path.display()))?;
        context.printer.data(format!("image:   {}", exported.image))?;
        context.printer.data(format!("file:    {} MiB", exported.file_bytes.div_ceil(1 << 20)))?;
        context.printer.data(format!("size:    {} MiB", exported.disk_bytes >> 20))?;
        context.printer.data(format!("sha256:  {}", exported.sha256))?;
        Ok(Exit::Ok)
    }
}

/// Also one that is not Kiln's own, such as a plain system.
pub async fn find(deployment: &Deployment<'_>, name: &str) -> anyhow::Result<Image> {
    match super::find(deployment, name).await {
        Ok(image) => Ok(image),
        Err(none) => deployment.cloud.find_image(name).await.map_err(|_| none),
    }
}

fn by_ending(output: &Path) -> DiskFormat {
    match output.extension().and_then(|ending| ending.to_str()) {
        Some("raw" | "img") => DiskFormat::Raw,
        _ => DiskFormat::Qcow2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_known_by_the_ending() {
        assert_eq!(by_ending(Path::new("a.raw")), DiskFormat::Raw);
        assert_eq!(by_ending(Path::new("a.qcow2")), DiskFormat::Qcow2);
        assert_eq!(by_ending(Path::new("a")), DiskFormat::Qcow2);
    }
}
