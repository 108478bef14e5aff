//! `kiln completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Exit;

/// Print the completions for a shell
///
/// Bash: `kiln completions bash > /etc/bash_completion.d/kiln`
#[derive(Debug, Args)]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "kiln", &mut script);
        context.printer.raw(String::from_utf8_lossy(&script))?;
        Ok(Exit::Ok)
    }
}
