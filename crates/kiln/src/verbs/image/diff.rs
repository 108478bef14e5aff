//! `kiln image diff`

use clap::Args;
use kiln_deploy::SecurityUpdates;
use kiln_image::{Difference, images_of_kiln};
use serde::Serialize;

use super::{find_in, manifest_of};
use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::table::Table;

/// Show which packages one image has and another has not, and which are of other versions
#[derive(Debug, Args)]
pub struct Diff {
    /// Name or id, or name in the file
    from: String,
    /// The same, of the image to compare with
    to: String,
    /// Show also which packages of the second have a newer version in the security suite of its sources. The suite's server is asked
    #[arg(long)]
    security: bool,
}

#[derive(Serialize)]
struct Outcome {
    from: String,
    to: String,
    #[serde(flatten)]
    difference: Difference,
    #[serde(skip_serializing_if = "Option::is_none")]
    security: Option<SecurityUpdates>,
}

impl Diff {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let outcome = cluster::with(context, async |deployment| {
            let images = images_of_kiln(&deployment.cloud).await?;
            let from = find_in(deployment, &images, &self.from)?;
            let to = find_in(deployment, &images, &self.to)?;
            let manifest = manifest_of(&to)?;
            let difference = Difference::between(&manifest_of(&from)?, &manifest);
            let security =
                if self.security { Some(deployment.security_updates(&to, &manifest).await?) } else { None };
            Ok(Outcome { from: from.name, to: to.name, difference, security })
        })?;
        if context.printer.is_json() {
            context.printer.json(&outcome)?;
            return Ok(Exit::Ok);
        }
        let Outcome { from, to, difference, security } = &outcome;
        context.printer.data(format!("{from} -> {to}: {}", difference.summary()))?;
        if !difference.is_empty() {
            context.printer.raw(table(difference))?;
        }
        if let Some(security) = security {
            show(context, to, security)?;
        }
        Ok(Exit::Ok)
    }
}

fn show(context: &Context, image: &str, security: &SecurityUpdates) -> anyhow::Result<()> {
    let SecurityUpdates { suite, newer } = security;
    let text = match newer.len() {
        0 => format!("{image} has nothing older than {suite}"),
        1 => format!("1 package of {image} is newer in {suite}:"),
        many => format!("{many} packages of {image} are newer in {suite}:"),
    };
    context.printer.data(text)?;
    if newer.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(["package", "in the image", "in the suite"]);
    for package in newer {
        table.row([package.name.clone(), package.installed.clone(), package.available.clone()]);
    }
    Ok(context.printer.raw(table)?)
}

fn table(difference: &Difference) -> Table {
    let mut table = Table::new(["change", "package", "from", "to"]);
    for change in &difference.changed {
        let sign = if change.older { "<" } else { ">" };
        table.row([sign.to_string(), change.name.clone(), change.from.clone(), change.to.clone()]);
    }
    for package in &difference.added {
        table.row(["+".to_string(), package.name.clone(), String::new(), package.version.clone()]);
    }
    for package in &difference.removed {
        table.row(["-".to_string(), package.name.clone(), package.version.clone(), String::new()]);
    }
    table
}
