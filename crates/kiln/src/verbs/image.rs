//! `kiln image`

mod export;
mod upload;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use kiln_cloud::Image as CloudImage;
use kiln_deploy::Deployment;
use kiln_image::{Manifest, Recipe, built_image, images_of_kiln, origin};
use serde::Serialize;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::table::Table;

/// Build, list, show, export and delete node images
#[derive(Debug, Subcommand)]
pub enum Image {
    Build(Build),
    List(List),
    Show(Show),
    Delete(Delete),
    Export(export::Export),
    Upload(upload::Upload),
}

/// Build images of the file whose recipe has not been built yet
#[derive(Debug, Args)]
pub struct Build {
    /// Only this one
    name: Option<String>,
    /// Build it again although its recipe is unchanged, to get newer packages
    #[arg(long)]
    force: bool,
    /// Keep the build instance when the build fails, to inspect it
    #[arg(long)]
    keep_on_failure: bool,
}

/// List the images Kiln has built or uploaded
#[derive(Debug, Args)]
pub struct List {}

/// Show an image's manifest: recipe, source, time, every package with its version
#[derive(Debug, Args)]
pub struct Show {
    /// Its name or id, or its name in the file
    image: String,
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

#[derive(Serialize)]
struct Row {
    id: String,
    name: String,
    size_bytes: u64,
    built: jiff::Timestamp,
    recipe: Option<String>,
    source: Option<String>,
    slurm: Option<String>,
    /// The image of the file that has just this recipe now.
    in_file: Option<String>,
}

impl Image {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Image::Build(verb) => verb.run(context),
            Image::List(verb) => verb.run(context),
            Image::Show(verb) => verb.run(context),
            Image::Delete(verb) => verb.run(context),
            Image::Export(verb) => verb.run(context),
            Image::Upload(verb) => verb.run(context),
        }
    }
}

impl Build {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let built = cluster::with(context, async |deployment| {
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
            let mut built = Vec::new();
            for name in names {
                deployment.check_stop()?;
                let image = deployment.build_image(&name, self.force, self.keep_on_failure).await?;
                built.push(row(&image, deployment));
            }
            Ok(built)
        })?;
        print(context, &built)
    }
}

impl List {
    #[allow(clippy::unused_self, reason = "every verb has a run")]
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let rows = cluster::with(context, async |deployment| {
            let images = images_of_kiln(&deployment.cloud).await?;
            Ok(images.iter().map(|image| row(image, deployment)).collect::<Vec<_>>())
        })?;
        print(context, &rows)
    }
}

impl Show {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let manifest = cluster::with(context, async |deployment| {
            let image = find(deployment, &self.image).await?;
            Manifest::of(&image).ok_or_else(|| anyhow!("image {} has no manifest", image.name))
        })?;
        if context.printer.is_json() {
            context.printer.json(&manifest)?;
            return Ok(Exit::Ok);
        }
        context.printer.data(format!("recipe:  {}", manifest.recipe))?;
        context.printer.data(format!("source:  {}", manifest.source))?;
        context.printer.data(format!("built:   {}", manifest.built))?;
        context.printer.data(format!("kiln:    {}", manifest.kiln))?;
        let mut table = Table::new(["package", "version"]);
        for package in manifest.packages {
            table.row([package.name, package.version]);
        }
        context.printer.raw(&table)?;
        Ok(Exit::Ok)
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
    let images = images_of_kiln(&deployment.cloud).await?;
    let of_file = Recipe::of(deployment.spec, wanted);
    let of_file = of_file.and_then(|recipe| built_image(&images, &recipe));
    let is_it = |image: &&CloudImage| image.id == wanted || image.name == wanted;
    images
        .iter()
        .find(is_it)
        .or(of_file)
        .cloned()
        .ok_or_else(|| anyhow!("there is no image {wanted}"))
        .hint("`kiln image list` shows them all")
}

fn row(image: &CloudImage, deployment: &Deployment<'_>) -> Row {
    let manifest = Manifest::of(image);
    let recipe = manifest.as_ref().map(|m| m.recipe.clone());
    let same =
        |name: &&String| recipe.is_some() && Recipe::of(deployment.spec, name).map(|r| r.digest()) == recipe;
    Row {
        id: image.id.clone(),
        name: image.name.clone(),
        size_bytes: image.size_bytes,
        built: image.created,
        source: manifest.as_ref().map(|m| m.source.clone()).or_else(|| origin(image).map(String::from)),
        slurm: manifest.as_ref().and_then(Manifest::slurm).map(|r| r.to_string()),
        in_file: deployment.spec.images.keys().find(same).cloned(),
        recipe,
    }
}

fn print(context: &Context, rows: &[Row]) -> anyhow::Result<Exit> {
    if context.printer.is_json() {
        context.printer.json(&rows)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["image", "id", "size", "built", "source", "slurm", "in file"]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.id.clone(),
            format!("{} MiB", row.size_bytes >> 20),
            row.built.strftime("%Y-%m-%d %H:%M").to_string(),
            row.source.clone().unwrap_or_default(),
            row.slurm.clone().unwrap_or_default(),
            row.in_file.clone().unwrap_or_default(),
        ]);
    }
    context.printer.raw(&table)?;
    Ok(Exit::Ok)
}
