//! `kiln validate`

use clap::Args;
use kiln_spec::{Diagnostics, Group, Spec};

use crate::context::Context;
use crate::exit::Exit;
use crate::input;

/// Check the cluster file
///
/// With --json the findings are printed as a list, which is empty if there are none.
#[derive(Debug, Args)]
pub struct Validate {
    /// Print the whole specification as JSON, with every default filled in
    #[arg(long)]
    show: bool,
}

impl Validate {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.show {
            context.printer.json(&input::spec(context)?)?;
        } else if context.printer.is_json() {
            return list_findings(context);
        } else {
            let spec = input::spec(context)?;
            context.printer.say(format_args!("{} is valid: {}", context.file.display(), summary(&spec)));
        }
        Ok(Exit::Ok)
    }
}

fn list_findings(context: &Context) -> anyhow::Result<Exit> {
    let (findings, exit): (Diagnostics, Exit) = match input::check(&context.file)? {
        Ok((_, warnings)) => (warnings, Exit::Ok),
        Err(errors) => (errors, Exit::Usage),
    };
    context.printer.json(&findings)?;
    Ok(exit)
}

/// `1 control, 1 login, 4 compute nodes in 2 groups, 2 partitions`
fn summary(spec: &Spec) -> String {
    let nodes = |groups: &[Group]| groups.iter().map(|group| group.nodes.len()).sum::<usize>();
    format!(
        "1 control, {} login, {} in {}, {}",
        nodes(&spec.login),
        counted(nodes(&spec.compute), "compute node"),
        counted(spec.compute.len(), "group"),
        counted(spec.partitions.len(), "partition"),
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
