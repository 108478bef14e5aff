//! `kiln node apply`

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use kiln_node::{ApplyOptions, Turn};
use kiln_wire::{Bundle, Format as _};

use super::report;
use crate::context::Context;
use crate::error::Advise;
use crate::exit::Exit;

/// Apply a bundle to this node
///
/// Prints one line per resource that was changed, skipped or failed, and how many were correct already.
#[derive(Debug, Args)]
pub struct Apply {
    /// The bundle; `-` reads it from standard input
    #[arg(long, default_value = "-", value_name = "FILE")]
    bundle: PathBuf,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave this resource and those behind it for later
    #[arg(long, hide = true, value_name = "ID")]
    before: Option<String>,
    /// Write the id of each resource to standard error when its turn comes
    #[arg(long, hide = true)]
    progress: bool,
}

impl Apply {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let bundle = read(&self.bundle).exit(Exit::Usage)?;
        if let Some(id) = &self.before
            && !bundle.resources.iter().any(|resource| resource.id() == *id)
        {
            return Err(anyhow::anyhow!("the bundle has no resource {id}")).exit(Exit::Usage);
        }
        let options = ApplyOptions { dry_run: self.dry_run, before: self.before, ..ApplyOptions::default() };
        let printer = &context.printer;
        // The node comes first: output that cannot be written must not end the apply half way.
        let mut output = Ok(());
        let report = kiln_node::apply(&bundle, &options, &mut |step| match step {
            Turn::Begins(id) if self.progress => {
                let _ = writeln!(std::io::stderr(), "{id}");
            }
            Turn::Ended(resource) if output.is_ok() && !printer.is_json() => {
                output = report::resource(resource, self.dry_run).map_or(Ok(()), |line| printer.data(line));
            }
            _ => {}
        });
        kiln_node::try_again(&bundle, &report);
        output?;
        if printer.is_json() {
            printer.json(&report)?;
        } else {
            printer.data(report::count(&report))?;
        }
        Ok(if report.ok() { Exit::Ok } else { Exit::Failed })
    }
}

fn read(path: &Path) -> anyhow::Result<Bundle> {
    let mut json = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
    } else {
        json = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(Bundle::from_json(&json)?)
}
