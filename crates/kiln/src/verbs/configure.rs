//! `kiln configure`

use clap::Args;
use kiln_deploy::Configured;
use kiln_wire::ApplyReport;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::verbs::backup::started_empty;
use crate::verbs::node::report;

/// Configure every node as the file says, and wait until Slurm has them in service
#[derive(Debug, Args)]
pub struct Configure {
    /// Show what would change on each node and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Begin with other accounts: the file has another `host` in [accounting], or none any more
    ///
    /// No job may be in the queue. What the present accounts hold stays where it is; nothing is moved. A database on the control node is
    /// kept beside, unused. Fair-share usage starts at zero.
    #[arg(long, conflicts_with = "dry_run")]
    leave_accounting: bool,
}

impl Configure {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let done = cluster::with(context, async |deployment| {
            if self.leave_accounting {
                deployment.leave_accounting().await?;
            }
            Ok(deployment.configure(self.dry_run).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&done)?;
        } else if self.dry_run {
            context.printer.raw(diffs(&done))?;
        } else {
            context.printer.say(summary(&done));
        }
        warn_of_lost_state(context, &done);
        if !done.leaving.is_empty() {
            let nodes = kiln_spec::hostlist::fold(done.leaving.iter().map(String::as_str));
            context
                .printer
                .say(format!("{nodes}: not in the file, and still there; `kiln apply` removes them"));
        }
        Ok(Exit::Ok)
    }
}

fn diffs(done: &Configured) -> String {
    let lines = |applied: &ApplyReport| -> String {
        let lines = applied.resources.iter().filter_map(|r| report::resource(r, applied.dry_run));
        lines.fold(String::new(), |text, line| text + &line + "\n")
    };
    let of_nodes = done.nodes.iter().map(|(node, applied)| (node, lines(applied)));
    let told = of_nodes.filter(|(_, lines)| !lines.is_empty());
    let texts: Vec<String> = told.map(|(node, lines)| format!("{node}:\n{lines}")).collect();
    let text = texts.concat();
    if text.is_empty() { "nothing would change\n".to_owned() } else { text }
}

/// Whatever else there is to say: an empty cluster is not taken for the one that was there.
pub fn warn_of_lost_state(context: &Context, done: &Configured) {
    if let Some(name) = &done.left_behind {
        context.printer.warn(started_empty(name));
    }
}

pub fn summary(done: &Configured) -> String {
    match done.changed() {
        0 => "every node already was as the file says".to_owned(),
        n => format!("{n} of {} nodes changed", done.nodes.len()),
    }
}
