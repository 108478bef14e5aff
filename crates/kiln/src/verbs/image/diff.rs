//! `kiln image diff`

use clap::Args;
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
}

#[derive(Serialize)]
struct Outcome {
    from: String,
    to: String,
    #[serde(flatten)]
    difference: Difference,
}

impl Diff {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let outcome = cluster::with(context, async |deployment| {
            let images = images_of_kiln(&deployment.cloud).await?;
            let from = find_in(deployment, &images, &self.from)?;
            let to = find_in(deployment, &images, &self.to)?;
            let difference = Difference::between(&manifest_of(&from)?, &manifest_of(&to)?);
            Ok(Outcome { from: from.name, to: to.name, difference })
        })?;
        if context.printer.is_json() {
            context.printer.json(&outcome)?;
            return Ok(Exit::Ok);
        }
        let Outcome { from, to, difference } = &outcome;
        context.printer.data(format!("{from} -> {to}: {}", difference.summary()))?;
        if !difference.is_empty() {
            context.printer.raw(table(difference))?;
        }
        Ok(Exit::Ok)
    }
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
