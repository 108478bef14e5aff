//! `kiln init`

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use anyhow::Context as _;
use clap::Args;

use crate::context::Context;
use crate::error::Advise;
use crate::exit::Exit;

/// Write a cluster file to start from
#[derive(Debug, Args)]
pub struct Init {
    /// Name of the cluster
    #[arg(long, default_value = "demo")]
    name: String,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Init {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let path = &context.file;
        let text = template(&self.name)?;
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let mut file = match options.open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(anyhow::anyhow!("{} exists already", path.display()))
                    .hint("--force replaces it")
                    .exit(Exit::Usage);
            }
            other => other.with_context(|| format!("cannot create {}", path.display()))?,
        };
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        context.printer.say(format_args!(
            "wrote {}; look through it, then check it with `kiln validate`",
            path.display()
        ));
        Ok(Exit::Ok)
    }
}

/// The starting file, which is a right one unless the name is wrong.
fn template(name: &str) -> anyhow::Result<String> {
    let text = kiln_spec::template(name);
    let Err(found) = kiln_spec::parse(&text, "cluster.toml") else {
        return Ok(text);
    };
    let Some(finding) = found.iter().next() else {
        return Ok(text);
    };
    let wrong = Err(anyhow::anyhow!("{}", finding.message)).exit(Exit::Usage);
    match &finding.expected {
        Some(expected) => wrong.hint(format!("a name is {expected}")),
        None => wrong,
    }
}
