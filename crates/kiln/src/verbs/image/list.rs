//! `kiln image list`

use clap::Args;
use kiln_deploy::{Deployment, in_file, nodes_by_image};
use kiln_image::{Manifest, images_of_kiln, is_test, origin};
use kiln_spec::hostlist;
use serde::Serialize;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::table::Table;

/// List the images Kiln has built or uploaded, and the nodes that run them
#[derive(Debug, Args)]
pub struct List {}

#[derive(Serialize)]
pub struct Row {
    pub id: String,
    pub name: String,
    size_bytes: u64,
    built: jiff::Timestamp,
    recipe: Option<String>,
    source: Option<String>,
    slurm: Option<String>,
    /// An image of the file that it stands for now.
    in_file: Option<String>,
    /// Built to be tested, and not promoted.
    test: bool,
    /// Nodes of this cluster that run it.
    nodes: Vec<String>,
}

impl List {
    #[allow(clippy::unused_self, reason = "every verb has a run")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let rows = cluster::with(context, async |deployment| rows(deployment).await)?;
        print(context, &rows)
    }
}

/// Newest first.
pub async fn rows(deployment: &Deployment<'_>) -> anyhow::Result<Vec<Row>> {
    let images = images_of_kiln(&deployment.cloud).await?;
    let observed = deployment.observe().await?;
    let nodes = nodes_by_image(&observed);
    let row = |image: &kiln_cloud::Image| {
        let manifest = Manifest::of(image);
        Row {
            id: image.id.clone(),
            name: image.name.clone(),
            size_bytes: image.size_bytes,
            built: image.created,
            source: manifest.as_ref().map(|m| m.source.clone()).or_else(|| origin(image).map(String::from)),
            slurm: manifest.as_ref().and_then(Manifest::slurm).map(|r| r.to_string()),
            in_file: in_file(deployment.spec, &images, image).first().map(|name| (*name).to_string()),
            test: is_test(image),
            nodes: nodes.get(image.id.as_str()).into_iter().flatten().map(|n| (*n).to_string()).collect(),
            recipe: manifest.map(|m| m.recipe),
        }
    };
    Ok(images.iter().map(row).collect())
}

pub fn print(context: &Context, rows: &[Row]) -> anyhow::Result<Exit> {
    if context.printer.is_json() {
        context.printer.json(&rows)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["image", "id", "size", "built", "source", "slurm", "in file", "nodes"]);
    for row in rows {
        let in_file = row.in_file.clone().or_else(|| row.test.then(|| "(test)".to_string()));
        table.row([
            row.name.clone(),
            row.id.clone(),
            format!("{} MiB", row.size_bytes >> 20),
            row.built.strftime("%Y-%m-%d %H:%M").to_string(),
            row.source.clone().unwrap_or_default(),
            row.slurm.clone().unwrap_or_default(),
            in_file.unwrap_or_default(),
            hostlist::fold(row.nodes.iter().map(String::as_str)),
        ]);
    }
    context.printer.raw(&table)?;
    Ok(Exit::Ok)
}
