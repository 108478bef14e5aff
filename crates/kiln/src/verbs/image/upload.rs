//! `kiln image upload`

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use kiln_cloud::{Labels, NewImage};
use kiln_image::Sidecar;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Upload a disk to the cloud
///
/// A disk of `kiln image export` is an image that nodes can run (`prebuilt` in the file): it is uploaded with the manifest
/// in FILE.kiln.json. Any other is one to build from.
#[derive(Debug, Args)]
pub struct Upload {
    /// A disk in qcow2 or raw format
    path: PathBuf,
    /// The image's name in the cloud. Default: the file's name without its ending
    #[arg(long)]
    name: Option<String>,
    /// Who may use it. Default: the cloud's, mostly your project alone
    #[arg(long)]
    visibility: Option<Visibility>,
    /// The smallest disk of a flavor, in GiB. Default: the size of the disk, if it was exported
    #[arg(long, value_name = "GIB")]
    min_disk: Option<u64>,
    /// How it is booted
    #[arg(long)]
    firmware: Option<Firmware>,
    /// The kind of machine, such as q35
    #[arg(long, value_name = "TYPE")]
    machine_type: Option<String>,
    /// How its disks are attached, such as virtio or scsi
    #[arg(long, value_name = "BUS")]
    disk_bus: Option<String>,
    /// The user that administrators log in as
    #[arg(long, value_name = "USER")]
    admin_user: Option<String>,
    /// Any other property; may be repeated
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = pair)]
    properties: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Visibility {
    Private,
    Shared,
    Community,
    Public,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Firmware {
    Bios,
    Uefi,
}

impl Upload {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.clone().or(stem).unwrap_or_default();
        let sidecar =
            Sidecar::of(&self.path).hint("without that file, the disk is uploaded as one to build from")?;
        let properties = self.properties(sidecar.as_ref())?;
        let image = cluster::with(context, async |deployment| {
            let new = NewImage { name, labels: Labels::new(), properties };
            context.printer.say(format!("uploading {} as {}", self.path.display(), new.name));
            Ok(deployment.cloud.upload_image(new, &self.path).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&image)?;
        } else {
            context.printer.data(format!("{}  {}", image.name, image.id))?;
        }
        Ok(Exit::Ok)
    }

    fn properties(&self, sidecar: Option<&Sidecar>) -> anyhow::Result<BTreeMap<String, String>> {
        let mut all =
            sidecar.map(Sidecar::properties).transpose().context("the manifest cannot be written")?;
        let all = all.get_or_insert_default();
        let visibility =
            self.visibility.and_then(|v| v.to_possible_value()).map(|v| v.get_name().to_string());
        let firmware = self.firmware.and_then(|f| f.to_possible_value()).map(|f| f.get_name().to_string());
        let min_disk = self.min_disk.or(sidecar.map(Sidecar::min_disk_gib)).map(|gib| gib.to_string());
        let named = [
            ("visibility", visibility),
            ("min_disk", min_disk),
            ("hw_firmware_type", firmware),
            ("hw_machine_type", self.machine_type.clone()),
            ("hw_disk_bus", self.disk_bus.clone()),
            ("os_admin_user", self.admin_user.clone()),
        ];
        all.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
        for (name, value) in &self.properties {
            if name.starts_with("kiln_") {
                return Err(anyhow!("property {name} is Kiln's own")).exit(Exit::Usage);
            }
            if all.insert(name.clone(), value.clone()).is_some() {
                return Err(anyhow!("property {name} is given twice")).exit(Exit::Usage);
            }
        }
        Ok(std::mem::take(all))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
