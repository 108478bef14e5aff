//! `kiln image upload`

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use kiln_cloud::{Labels, NewImage};
use kiln_image::Sidecar;
use kiln_spec::{Firmware, ImageProperties, Visibility};

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
    visibility: Option<VisibilityName>,
    /// The smallest disk of a flavor, in GiB. Default: the size of the disk, if it was exported
    #[arg(long, value_name = "GIB")]
    min_disk: Option<u64>,
    /// How it is booted
    #[arg(long)]
    firmware: Option<FirmwareName>,
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
enum VisibilityName {
    Private,
    Shared,
    Community,
    Public,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FirmwareName {
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
        let own = sidecar.map(Sidecar::properties).transpose().context("the manifest cannot be written")?;
        let told = ImageProperties {
            firmware: self.firmware.map(|firmware| match firmware {
                FirmwareName::Bios => Firmware::Bios,
                FirmwareName::Uefi => Firmware::Uefi,
            }),
            machine_type: self.machine_type.clone(),
            disk_bus: self.disk_bus.clone(),
            admin_user: self.admin_user.clone(),
            visibility: self.visibility.map(|visibility| match visibility {
                VisibilityName::Private => Visibility::Private,
                VisibilityName::Shared => Visibility::Shared,
                VisibilityName::Community => Visibility::Community,
                VisibilityName::Public => Visibility::Public,
            }),
            min_disk_gib: self.min_disk.or(sidecar.map(Sidecar::min_disk_gib)),
            other: BTreeMap::new(),
        };
        let mut all = own.unwrap_or_default();
        all.extend(told.in_cloud());
        for (name, value) in &self.properties {
            if name.starts_with("kiln_") {
                return Err(anyhow!("property {name} is Kiln's own")).exit(Exit::Usage);
            }
            if all.insert(name.clone(), value.clone()).is_some() {
                return Err(anyhow!("property {name} is given twice")).exit(Exit::Usage);
            }
        }
        Ok(all)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
