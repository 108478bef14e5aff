//! `kiln exec`

use clap::Args;
use kiln_deploy::{Deployment, ExecOutcome};
use kiln_spec::hostlist;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::harmless::harmless;

/// Run a command as root on many nodes at once
///
/// Exits with 1 if it failed on any of them.
#[derive(Debug, Args)]
pub struct Exec {
    /// Only on these nodes, a hostlist such as compute-[0-3]
    #[arg(short, long, value_name = "HOSTLIST")]
    nodes: Option<String>,
    /// Only on nodes of this role: control, login or compute
    #[arg(short, long, conflicts_with = "nodes", value_parser = ["control", "login", "compute"])]
    role: Option<String>,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Exec {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let outcomes = cluster::with(context, async |deployment| {
            let nodes = self.chosen(deployment)?;
            let observed = deployment.observe().await?;
            let hosts = deployment.hosts(&observed, nodes.iter().map(String::as_str))?;
            let argv: Vec<&str> = self.command.iter().map(String::as_str).collect();
            Ok(deployment.exec(hosts, &argv).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&outcomes)?;
        } else {
            for outcome in &outcomes {
                show(context, outcome)?;
            }
        }
        let failed = outcomes.iter().any(|o| o.status != Some(0));
        Ok(if failed { Exit::Failed } else { Exit::Ok })
    }

    fn chosen(&self, deployment: &Deployment<'_>) -> anyhow::Result<Vec<String>> {
        if let Some(list) = &self.nodes {
            return hostlist::expand(list).exit(Exit::Usage);
        }
        let of_role =
            |node: &kiln_spec::Node<'_>| self.role.as_deref().is_none_or(|r| r == node.role.as_str());
        Ok(deployment.spec.nodes().filter(of_role).map(|n| n.name.to_owned()).collect())
    }
}

/// Every line with its node before it, so that the output of many can be told apart and sorted.
fn show(context: &Context, outcome: &ExecOutcome) -> anyhow::Result<()> {
    for line in outcome.stdout.lines() {
        context.printer.foreign(&format!("{}: {line}\n", outcome.node))?;
    }
    for line in outcome.stderr.lines() {
        context.printer.warn(format!("{}: {}", outcome.node, harmless(line)));
    }
    if let Some(status) = outcome.status.filter(|s| *s != 0) {
        context.printer.warn(format!("{}: exit {status}", outcome.node));
    }
    Ok(())
}
