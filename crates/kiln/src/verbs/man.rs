//! `kiln man`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Exit;

/// Print the manual page, or write one page per verb
#[derive(Debug, Args)]
pub struct Man {
    /// Write `kiln.1`, `kiln-init.1`, ... into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            context.printer.raw(String::from_utf8_lossy(&page))?;
            return Ok(Exit::Ok);
        };
        std::fs::create_dir_all(&dir)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &dir))
            .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
        context.printer.say(format_args!("manual pages are in {}", dir.display()));
        Ok(Exit::Ok)
    }
}
