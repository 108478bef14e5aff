//! `kiln image show`

use clap::Args;
use kiln_deploy::{in_file, nodes_by_image};
use kiln_image::{Ancestor, Manifest, descent, images_of_kiln};
use kiln_spec::hostlist;
use serde::Serialize;

use super::{find_in, manifest_of};
use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::table::Table;

/// Show an image: its recipe, what it was built on, who uses it, its packages
///
/// JSON has the whole manifest: architecture and SHA-256 of every package.
#[derive(Debug, Args)]
pub struct Show {
    /// Its name or id, or its name in the file
    image: String,
    /// Every package with its version
    #[arg(long)]
    packages: bool,
}

#[derive(Serialize)]
struct Shown {
    id: String,
    name: String,
    size_bytes: u64,
    slurm: Option<String>,
    /// Images of the file that it stands for now.
    in_file: Vec<String>,
    /// Nodes of this cluster that run it.
    nodes: Vec<String>,
    #[serde(flatten)]
    manifest: Manifest,
}

impl Show {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let shown = cluster::with(context, async |deployment| {
            let images = images_of_kiln(&deployment.cloud).await?;
            let image = find_in(deployment, &images, &self.image)?;
            let mut manifest = manifest_of(&image)?;
            manifest.descent = descent(&images, &manifest);
            let observed = deployment.observe().await?;
            let nodes = nodes_by_image(&observed).remove(image.id.as_str()).unwrap_or_default();
            Ok(Shown {
                slurm: manifest.slurm().map(|release| release.to_string()),
                in_file: in_file(deployment.spec, &images, &image).into_iter().map(String::from).collect(),
                nodes: nodes.into_iter().map(String::from).collect(),
                id: image.id,
                name: image.name,
                size_bytes: image.size_bytes,
                manifest,
            })
        })?;
        if context.printer.is_json() {
            context.printer.json(&shown)?;
            return Ok(Exit::Ok);
        }
        print(context, &shown, self.packages)
    }
}

fn print(context: &Context, shown: &Shown, packages: bool) -> anyhow::Result<Exit> {
    let or_none = |text: String| if text.is_empty() { "-".to_string() } else { text };
    let lines = [
        ("image", shown.name.clone()),
        ("id", shown.id.clone()),
        ("recipe", shown.manifest.recipe.clone()),
        ("software", shown.manifest.software.join(", ")),
        ("built on", built_on(&shown.manifest.descent)),
        ("built", shown.manifest.built.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
        ("kiln", shown.manifest.kiln.clone()),
        ("slurm", shown.slurm.clone().unwrap_or_default()),
        ("packages", shown.manifest.packages.len().to_string()),
        ("size", format!("{} MiB", shown.size_bytes >> 20)),
        ("in file", shown.in_file.join(", ")),
        ("nodes", hostlist::fold(shown.nodes.iter().map(String::as_str))),
    ];
    for (key, value) in lines {
        context.printer.data(format!("{:<10}{}", format!("{key}:"), or_none(value)))?;
    }
    if packages {
        let mut table = Table::new(["package", "version", "architecture"]);
        for package in &shown.manifest.packages {
            table.row([package.name.clone(), package.version.clone(), package.architecture.clone()]);
        }
        context.printer.raw(&table)?;
    }
    Ok(Exit::Ok)
}

/// Each with what it added.
fn built_on(descent: &[Ancestor]) -> String {
    let one = |ancestor: &Ancestor| match ancestor.software.as_slice() {
        [] => ancestor.image.clone(),
        software => format!("{} ({})", ancestor.image, software.join(", ")),
    };
    descent.iter().map(one).collect::<Vec<_>>().join(", on ")
}
