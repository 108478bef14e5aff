//! `kiln limits`

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use clap::Args;
use kiln_cloud::Limit;
use kiln_spec::{NodeCounts, limit_flavors, with_limits};
use serde::Serialize;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::input;
use crate::table::Table;

/// Show how many nodes of which flavor the cloud lets you have, by availability zone
///
/// Of each limit that nodes of a flavor count against: how much there may be, how much is used, and how many more nodes fit.
#[derive(Debug, Args)]
pub struct Limits {
    /// Flavors; without any, those of the file
    flavors: Vec<String>,
    /// Write the numbers of nodes into `[limits]` of the file: of these flavors, or of those that it has there
    #[arg(long)]
    write: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    limit: &'a Limit,
    /// How many more nodes fit.
    nodes: u64,
}

impl Limits {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.write {
            return self.write(context);
        }
        let limits = cluster::with(context, async |deployment| Ok(deployment.limits(&self.flavors).await?))?;
        if context.printer.is_json() {
            let rows: Vec<Row<'_>> = limits.iter().map(|limit| Row { limit, nodes: limit.room() }).collect();
            context.printer.json(&rows)?;
        } else if limits.is_empty() {
            context.printer.say("this cloud sets no limits that Kiln could show");
        } else {
            context.printer.raw(table(&limits))?;
        }
        Ok(Exit::Ok)
    }

    fn write(self, context: &Context) -> anyhow::Result<Exit> {
        let text = std::fs::read_to_string(&context.file).unwrap_or_default();
        let flavors = if self.flavors.is_empty() { limit_flavors(&text) } else { self.flavors };
        let counts = cluster::with(context, async |deployment| {
            if flavors.is_empty() {
                return Err(anyhow!("{} has no [limits]", context.file.display()))
                    .exit(Exit::Usage)
                    .hint("name the flavors: kiln limits FLAVOR... --write");
            }
            Ok(deployment.node_counts(&flavors).await?)
        })?;
        if let Some((flavor, _)) = counts.iter().find(|(_, zones)| zones.is_empty()) {
            return Err(anyhow!("the cloud tells no limits of {flavor} by availability zone"))
                .hint("write the numbers into [limits] yourself, or a group in place of them");
        }
        let new = with_limits(&text, &counts).map_err(|why| anyhow!("{}: {why}", context.file.display()))?;
        let file = context.file.display().to_string();
        if new == text {
            context.printer.say(format!("{file} is unchanged"));
        } else {
            // What would not be accepted is not written.
            input::check_text(&context.file, &new).exit(Exit::Usage)?;
            replace(&context.file, &new).with_context(|| format!("cannot write {file}"))?;
            context.printer.say(format!("{file} is changed: review it, then run `kiln plan`"));
        }
        print(context, &counts)?;
        Ok(Exit::Ok)
    }
}

fn table(limits: &[Limit]) -> Table {
    let mut table = Table::new(["flavor", "zone", "limit", "most", "used", "free", "nodes"]);
    for limit in limits {
        table.row([
            limit.flavor.clone(),
            limit.zone.clone().unwrap_or_default(),
            limit.name.clone(),
            limit.most.to_string(),
            limit.used.map(|used| used.to_string()).unwrap_or_default(),
            limit.free.to_string(),
            limit.room().to_string(),
        ]);
    }
    table
}

fn print(context: &Context, counts: &NodeCounts) -> anyhow::Result<()> {
    if context.printer.is_json() {
        return context.printer.json(counts);
    }
    let mut table = Table::new(["flavor", "zone", "nodes"]);
    for (flavor, zones) in counts {
        for (zone, count) in zones {
            table.row([flavor.clone(), zone.clone(), count.to_string()]);
        }
    }
    Ok(context.printer.raw(&table)?)
}

/// All of it or nothing, with the rights that the file has. A link stays one.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let file = std::fs::canonicalize(file)?;
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(Path::new("/")))?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(std::fs::metadata(&file)?.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}
