//! `kiln image upload`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use kiln_cloud::{Image, Labels, NewImage};
use kiln_deploy::{Deployment, DiskWanted};
use kiln_image::{DiskFormat, Sidecar, work_dir};
use kiln_spec::{Firmware, ImageProperties, Visibility};

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::input;

/// Upload a disk, or an image of the local cloud, to the cloud
///
/// A disk of `kiln image export` is an image that nodes can run (`prebuilt` in the file): it is uploaded with the manifest
/// in FILE.kiln.json. Any other is one to build from. With --from, an image of the local cloud is exported and uploaded in one go.
#[derive(Debug, Args)]
pub struct Upload {
    /// A disk in qcow2 or raw format; with --from, an image by name or id, or by its name in that cluster file
    #[arg(value_name = "FILE|IMAGE")]
    path: PathBuf,
    /// The cluster file of a local cloud that has the image. The properties that it gives the image are used, where no option says otherwise
    #[arg(long, value_name = "CLUSTER_FILE")]
    from: Option<PathBuf>,
    /// The image's name in the cloud. Default: the file's name without its ending; with --from, the name that it has in the local cloud
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
        let image = match &self.from {
            Some(from) => self.upload_local(context, from)?,
            None => self.upload_file(context)?,
        };
        if context.printer.is_json() {
            context.printer.json(&image)?;
        } else {
            context.printer.data(format!("{}  {}", image.name, image.id))?;
        }
        Ok(Exit::Ok)
    }

    fn upload_file(&self, context: &Context) -> anyhow::Result<Image> {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.clone().or(stem).unwrap_or_default();
        let sidecar =
            Sidecar::of(&self.path).hint("without that file, the disk is uploaded as one to build from")?;
        let properties = self.properties(sidecar.as_ref(), &ImageProperties::default())?;
        cluster::with(context, async |deployment| {
            let new = NewImage { name, labels: Labels::new(), properties };
            context.printer.say(format!("uploading {} as {}", self.path.display(), new.name));
            Ok(deployment.cloud.upload_image(new, &self.path).await?)
        })
    }

    fn upload_local(&self, context: &Context, from: &Path) -> anyhow::Result<Image> {
        let target = input::spec(context)?;
        let (local, _) = input::check(from)?.exit(Exit::Usage)?;
        if !local.cloud.facts().makes_source_images {
            return Err(anyhow!("{} is not the file of a local cloud", from.display())).exit(Exit::Usage);
        }
        cluster::shown(context, async |progress, stop| {
            let target = Deployment::open(&target, &context.file, progress, stop.clone())?;
            let local = Deployment::open(&local, from, progress, stop)?;
            let image = super::export::find(&local, &self.path.to_string_lossy()).await?;
            let name = self.name.clone().unwrap_or_else(|| image.name.clone());
            // A cloud that does not answer is told before minutes are spent.
            match target.cloud.find_image(&name).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
            let room = work_dir();
            let dir = tempfile::Builder::new().prefix("kiln-upload-").tempdir_in(&room);
            let dir = dir.with_context(|| format!("no directory can be made in {}", room.display()))?;
            let disk = dir.path().join("disk.qcow2");
            let wanted = DiskWanted { output: &disk, format: DiskFormat::Qcow2, size: None, force: false };
            local.export_image(&image, &wanted).await?;
            let sidecar = Sidecar::of(&disk)?;
            let in_file = sidecar.as_ref().and_then(|sidecar| local.spec.images.get(&sidecar.image));
            let told = in_file.map(|image| image.properties.clone()).unwrap_or_default();
            let properties = self.properties(sidecar.as_ref(), &told)?;
            let new = NewImage { name, labels: Labels::new(), properties };
            context.printer.say(format!("uploading {} as {}", image.name, new.name));
            Ok(target.cloud.upload_image(new, &disk).await?)
        })
    }

    /// `told` is what the file says of the image; options count more.
    fn properties(
        &self,
        sidecar: Option<&Sidecar>,
        told: &ImageProperties,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let own = sidecar.map(Sidecar::properties).transpose().context("the manifest cannot be written")?;
        let options = ImageProperties {
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
            min_disk_gib: self.min_disk.or(told.min_disk_gib).or(sidecar.map(Sidecar::min_disk_gib)),
            other: BTreeMap::new(),
        };
        let mut all = own.unwrap_or_default();
        all.extend(told.in_cloud());
        let mut given = options.in_cloud();
        for (name, value) in &self.properties {
            if name.starts_with("kiln_") {
                return Err(anyhow!("property {name} is Kiln's own")).exit(Exit::Usage);
            }
            if given.insert(name.clone(), value.clone()).is_some() {
                return Err(anyhow!("property {name} is given twice")).exit(Exit::Usage);
            }
        }
        all.extend(given);
        Ok(all)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
