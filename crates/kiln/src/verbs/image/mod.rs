//! `kiln image`

mod ask;
mod check;
mod diff;
mod export;
mod list;
mod lock;
mod promote;
mod prune;
mod sbom;
mod show;
mod sync;
mod upload;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use kiln_cloud::Image as CloudImage;
use kiln_deploy::{BuildOptions, Deployment};
use kiln_image::{Manifest, Recipe, built_image, images_of_kiln};
use kiln_spec::ImageSource;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Build, list, check, compare, promote, export and delete node images
#[derive(Debug, Subcommand)]
pub enum Image {
    Build(Build),
    List(list::List),
    Show(show::Show),
    Check(check::Check),
    Diff(diff::Diff),
    Sbom(sbom::Sbom),
    Lock(lock::Lock),
    Promote(promote::Promote),
    Prune(prune::Prune),
    Delete(Delete),
    Export(export::Export),
    Upload(upload::Upload),
    Sync(sync::Sync),
}

/// Build images of the file whose recipe has not been built yet
#[derive(Debug, Args)]
pub struct Build {
    /// Only this one
    name: Option<String>,
    /// Build it again although its recipe is unchanged, to get newer packages
    #[arg(long)]
    force: bool,
    /// Build it again for a test: nodes get it only after `kiln image promote`
    #[arg(long)]
    test: bool,
    /// Install just the packages of the lock file that `kiln image lock` has written
    #[arg(long)]
    locked: bool,
    /// Keep the packages of each image in a directory below this one. With --locked they are taken from there, if they are there, and no
    /// package source is asked
    #[arg(long, value_name = "DIRECTORY")]
    keep_packages: Option<PathBuf>,
    /// Keep the build instance when the build fails, to inspect it. On a terminal, ask what to do about a step that has failed: run it again,
    /// open a shell, give up
    #[arg(long)]
    keep_on_failure: bool,
}

/// Delete an image
#[derive(Debug, Args)]
pub struct Delete {
    /// Its name or id
    image: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Also when nodes of this cluster run it
    #[arg(long)]
    force: bool,
}

impl Image {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Image::Build(verb) => verb.run(context),
            Image::List(verb) => verb.run(context),
            Image::Show(verb) => verb.run(context),
            Image::Check(verb) => verb.run(context),
            Image::Diff(verb) => verb.run(context),
            Image::Sbom(verb) => verb.run(context),
            Image::Lock(verb) => verb.run(context),
            Image::Promote(verb) => verb.run(context),
            Image::Prune(verb) => verb.run(context),
            Image::Delete(verb) => verb.run(context),
            Image::Export(verb) => verb.run(context),
            Image::Upload(verb) => verb.run(context),
            Image::Sync(verb) => verb.run(context),
        }
    }
}

impl Build {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let lock = if self.locked { Some(lock::read(context)?) } else { None };
        let asks = self.keep_on_failure && ask::is_possible(context);
        let plain = Context { file: context.file.clone(), printer: context.printer.without_bars() };
        let built = cluster::with(if asks { &plain } else { context }, async |deployment| {
            let names: Vec<String> = match &self.name {
                Some(name) => {
                    let known = &deployment.spec.images;
                    if !known.contains_key(name) {
                        let all: Vec<&str> = known.keys().map(String::as_str).collect();
                        return Err(anyhow!("the file has no image {name}"))
                            .exit(Exit::Usage)
                            .hint(format!("it has {}", all.join(", ")));
                    }
                    vec![name.clone()]
                }
                None => deployment.spec.images.keys().cloned().collect(),
            };
            deployment.check_owner(&deployment.observe().await?)?;
            let how = BuildOptions {
                force: self.force,
                keep_on_failure: self.keep_on_failure,
                ask: if asks { Some(ask::on_the_terminal(deployment.ssh()?)) } else { None },
                test: self.test,
                lock: lock.clone(),
                packages: self.keep_packages.clone(),
            };
            let mut built = Vec::new();
            for name in names {
                deployment.check_stop()?;
                built.push(deployment.build_image(&name, &how).await?.id);
            }
            let mut rows = list::rows(deployment).await?;
            rows.retain(|row| built.contains(&row.id));
            Ok(rows)
        })?;
        list::print(context, &built)
    }
}

impl Delete {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        cluster::with(context, async |deployment| {
            let image = find(deployment, &self.image).await?;
            if !self.force {
                deployment.check_unused(&image).await?;
            }
            cluster::confirm(context, self.yes, &format!("Deleting image {}", image.name))?;
            deployment.cloud.delete_image(&image.id).await?;
            context.printer.say(format!("image {} is deleted", image.name));
            Ok(Exit::Ok)
        })
    }
}

async fn find(deployment: &Deployment<'_>, wanted: &str) -> anyhow::Result<CloudImage> {
    find_in(deployment, &images_of_kiln(&deployment.cloud).await?, wanted)
}

/// By name or id, or the one that an image of the file stands for.
fn find_in(deployment: &Deployment<'_>, images: &[CloudImage], wanted: &str) -> anyhow::Result<CloudImage> {
    let named = |name: &str| images.iter().find(|image| image.id == name || image.name == name);
    let of_file = match deployment.spec.images.get(wanted).map(|image| &image.source) {
        Some(ImageSource::Prebuilt(name)) => named(name),
        _ => Recipe::of(deployment.spec, wanted).and_then(|recipe| built_image(images, &recipe)),
    };
    let found = named(wanted).or(of_file).cloned();
    if let (None, Some(ImageSource::Prebuilt(name))) =
        (&found, deployment.spec.images.get(wanted).map(|image| &image.source))
    {
        return Err(anyhow!("image {wanted} of the file is {name}, which Kiln has not built or uploaded"))
            .hint("`kiln image list` shows those that it has");
    }
    if found.is_none() && deployment.spec.images.contains_key(wanted) {
        return Err(anyhow!("image {wanted} of the file is not built yet"))
            .hint(format!("`kiln image build {wanted}` builds it"));
    }
    found.ok_or_else(|| anyhow!("there is no image {wanted}")).hint("`kiln image list` shows them all")
}

fn manifest_of(image: &CloudImage) -> anyhow::Result<Manifest> {
    Manifest::of(image)
        .ok_or_else(|| anyhow!("image {} has no manifest", image.name))
        .hint("only images that Kiln has built have one")
}
