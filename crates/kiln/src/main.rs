//! The `kiln` binary: arguments in, one verb run, its result printed. No logic of its own lives here.

mod age;
mod cli;
mod cluster;
mod context;
mod error;
mod exit;
mod harmless;
mod hook;
mod input;
mod live;
mod printer;
mod progress;
mod since;
mod size;
mod stop;
mod table;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Exit;
use crate::printer::Printer;

fn main() -> ExitCode {
    if let Some(exit) = hook::run() {
        return exit;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return error::report_usage(&error).into(),
    };
    cli.globals.color.apply();
    init_tracing(cli.globals.verbose, cli.verb.is_service());
    let context = Context::new(&cli.globals);
    match verbs::run(cli.verb, &context) {
        Ok(exit) => exit.into(),
        // The reader closed our output early (`kiln status | head`), which is not a failure.
        Err(error) if printer::output_was_closed(&error) => Exit::Ok.into(),
        Err(error) => {
            context.printer.error(&error);
            error::exit_of(&error).into()
        }
    }
}

/// `KILN_LOG` takes a filter in the words of `tracing`, for when `--verbose` shows too much or too little.
fn init_tracing(verbose: u8, service: bool) {
    let default = match verbose {
        0 if service => "info",
        0 => "off",
        1 => "info,kiln=debug,kiln_cloud=debug,kiln_deploy=debug,kiln_image=debug,kiln_node=debug",
        _ => "debug",
    };
    let chosen = std::env::var("KILN_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = chosen.unwrap_or_else(|| default.parse().unwrap_or_default());
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(Printer::stderr_has_colour());
    tracing_subscriber::registry().with(lines).with(filter).init();
}
