//! `kiln rebuild`

mod estimate;
mod view;
mod watch;

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use kiln_deploy::Rollouts;
use kiln_spec::hostlist;
use kiln_wire::Version;
use kiln_wire::rollout::{
    HAS_IMAGE, IS_OFF, NodeStep, Options, RolloutId, RolloutReport, RolloutState, Strategy, step_text,
};

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::table::Table;

/// Move compute nodes to the image of the file, through Slurm
///
/// Submits one job per node to the rebuild partition. Running jobs finish first; then the node is rebuilt before any
/// other job gets it. Without a subcommand a rollout is started and watched until it is over.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Rebuild {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    start: Start,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the newest rollout, or the one named
    Status { id: Option<RolloutId> },
    /// Watch a rollout until it is over
    ///
    /// On a terminal a live view, elsewhere a line for every step of every node. With --json every line is an object: a
    /// node at its new step, and at the end the whole rollout.
    Watch { id: Option<RolloutId> },
    /// Start no further nodes; those that have started continue
    Pause { id: Option<RolloutId> },
    /// Continue after a pause
    Resume { id: Option<RolloutId> },
    /// End a rollout; nodes that are being rebuilt are watched until they are done
    Abort { id: Option<RolloutId> },
    /// List all rollouts, newest first
    List,
    /// Show a rollout with all its nodes and options
    Show { id: RolloutId },
}

#[derive(Debug, Args)]
struct Start {
    /// Rebuild partitions; all of them if none is named
    partitions: Vec<String>,
    /// Only these nodes
    #[arg(short, long, value_name = "HOSTLIST")]
    nodes: Option<String>,
    /// Name of the jobs; NODE stands for the node's name
    #[arg(long, default_value = "rebuild-NODE", value_name = "NAME")]
    job_name: String,
    /// What the job runs on the node after the rebuild
    #[arg(long, default_value = "sleep 5", value_name = "SHELL")]
    command: String,
    /// Submit the jobs but rebuild nothing, to see how Slurm orders them
    #[arg(long)]
    no_reboot: bool,
    /// A further option for sbatch; may be repeated
    #[arg(long = "sbatch-option", value_name = "OPTION", allow_hyphen_values = true)]
    sbatch_options: Vec<String>,
    /// Submit the jobs as this user, to partitions that take the user's jobs; default: Slurm's own user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Rebuild this many nodes first, and the others only when these have succeeded
    #[arg(long, default_value_t = 0, value_name = "N")]
    canary: usize,
    /// At most this many nodes at a time, or this share of them such as 20%
    #[arg(long, value_name = "N|P%")]
    max_unavailable: Option<String>,
    /// Stop after this many failures; 0 never stops
    #[arg(long, default_value_t = 3, value_name = "K")]
    halt_after: usize,
    /// When it stops, return nodes to the image they had
    #[arg(long)]
    rollback_on_halt: bool,
    /// How Slurm frees a node for its rebuild
    #[arg(long, value_enum, default_value_t = How::Job)]
    strategy: How,
    /// What must succeed on the node after its rebuild
    #[arg(long, value_name = "SHELL")]
    check: Option<String>,
    /// Include nodes that have their image already; they are rebooted
    #[arg(long)]
    force: bool,
    /// Return as soon as the rollout is started
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum How {
    /// One job per node in the rebuild partition, before all user jobs
    Job,
    /// `scontrol reboot ASAP`: nodes take no new jobs until they are rebuilt
    Drain,
}

impl Rebuild {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        cluster::with(context, async |deployment| {
            let rollouts = deployment.rollouts().await?;
            match self.verb {
                None => self.start.run(context, &rollouts, deployment.spec).await,
                Some(Verb::List) => list(context, &rollouts.list().await?),
                Some(Verb::Status { id }) => show(context, &rollouts.find(id).await?),
                Some(Verb::Show { id }) => show(context, &rollouts.report(id).await?),
                Some(Verb::Watch { id }) => {
                    let id = rollouts.find(id).await?.rollout.id;
                    if context.printer.is_json() {
                        let report = watch::watch_as_json(&context.printer, &rollouts, id).await?;
                        context.printer.json_line(&report)?;
                        return Ok(exit(&report));
                    }
                    end(context, &watch::watch(context, &rollouts, id).await?)
                }
                Some(Verb::Pause { id }) => change(context, &rollouts, "pause", id).await,
                Some(Verb::Resume { id }) => change(context, &rollouts, "resume", id).await,
                Some(Verb::Abort { id }) => change(context, &rollouts, "abort", id).await,
            }
        })
    }
}

impl Start {
    async fn run(
        self,
        context: &Context,
        rollouts: &Rollouts<'_>,
        spec: &kiln_spec::Spec,
    ) -> anyhow::Result<Exit> {
        let detach = self.detach;
        let options = self.options(spec)?;
        for change in rollouts.outlook(&options).await? {
            context.printer.say(&change);
        }
        let started = rollouts.start(&options).await?;
        let id = started.rollout.id;
        let todo = started.rollout.nodes.len() - started.skipped;
        if todo == 0 {
            return nothing_to_do(context, &started);
        }
        context.printer.say(format!("rollout {id}: {todo} nodes, {} skipped", started.skipped));
        if detach {
            return if context.printer.is_json() { show(context, &started) } else { Ok(Exit::Ok) };
        }
        end(context, &watch::watch(context, rollouts, id).await?)
    }

    fn options(self, spec: &kiln_spec::Spec) -> anyhow::Result<Options> {
        let nodes = match &self.nodes {
            Some(list) => hostlist::expand(list).exit(Exit::Usage)?,
            None => Vec::new(),
        };
        let all =
            if nodes.is_empty() { spec.compute.iter().map(|g| g.nodes.len()).sum() } else { nodes.len() };
        Ok(Options {
            format: Version,
            partitions: self.partitions,
            nodes,
            job_name: self.job_name,
            command: self.command,
            no_reboot: self.no_reboot,
            sbatch_options: self.sbatch_options,
            user: self.user,
            canary: self.canary,
            max_unavailable: self.max_unavailable.map_or(Ok(0), |text| share(&text, all))?,
            halt_after: self.halt_after,
            rollback_on_halt: self.rollback_on_halt,
            strategy: match self.strategy {
                How::Job => Strategy::Job,
                How::Drain => Strategy::Drain,
            },
            check: self.check,
            force: self.force,
        })
    }
}

/// `3`, or `20%` of all nodes, at least one.
fn share(text: &str, all: usize) -> anyhow::Result<usize> {
    let wrong = || anyhow!("--max-unavailable takes a number of nodes or a share such as 20%, not {text:?}");
    let number = |digits: &str| digits.parse::<usize>().ok().filter(|n| *n > 0);
    let count = match text.strip_suffix('%') {
        Some(percent) => number(percent).filter(|p| *p <= 100).map(|p| (all * p / 100).max(1)),
        None => number(text),
    };
    count.ok_or_else(wrong).exit(Exit::Usage)
}

async fn change(
    context: &Context,
    rollouts: &Rollouts<'_>,
    verb: &str,
    id: Option<RolloutId>,
) -> anyhow::Result<Exit> {
    let id = rollouts.find(id).await?.rollout.id;
    show(context, &rollouts.change(verb, id).await?)
}

/// Every node was skipped. Reasons other than having the right image already are shown.
fn nothing_to_do(context: &Context, started: &RolloutReport) -> anyhow::Result<Exit> {
    let mut others: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in &started.rollout.nodes {
        if let NodeStep::Skipped { reason } = &node.step
            && ![HAS_IMAGE, IS_OFF].contains(&reason.as_str())
        {
            others.entry(reason).or_default().push(&node.node);
        }
    }
    if others.is_empty() {
        let all = started.skipped;
        context.printer.say(format!("all {all} nodes have their image; there is nothing to do"));
    }
    for (reason, nodes) in &others {
        context.printer.warn(format!("{} skipped: {reason}", hostlist::fold(nodes.iter().copied())));
    }
    if context.printer.is_json() {
        context.printer.json(started)?;
    }
    Ok(if others.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// How a watched rollout ended decides the exit code.
fn end(context: &Context, report: &RolloutReport) -> anyhow::Result<Exit> {
    if context.printer.is_json() {
        context.printer.json(report)?;
    } else {
        context.printer.say(format!("rollout {}: {}", report.rollout.id, report.message));
    }
    Ok(exit(report))
}

fn exit(report: &RolloutReport) -> Exit {
    let well = report.rollout.state == RolloutState::Done && report.failed == 0;
    if well { Exit::Ok } else { Exit::Failed }
}

fn list(context: &Context, reports: &[RolloutReport]) -> anyhow::Result<Exit> {
    if context.printer.is_json() {
        context.printer.json(&reports)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["rollout", "started", "nodes", "done", "failed", "state"]);
    for report in reports {
        table.row([
            report.rollout.id.to_string(),
            report.rollout.created.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            report.rollout.nodes.len().to_string(),
            report.done.to_string(),
            report.failed.to_string(),
            report.message.clone(),
        ]);
    }
    context.printer.raw(&table)?;
    Ok(Exit::Ok)
}

fn show(context: &Context, report: &RolloutReport) -> anyhow::Result<Exit> {
    if context.printer.is_json() {
        context.printer.json(report)?;
        return Ok(Exit::Ok);
    }
    context.printer.data(format!("rollout {}: {}", report.rollout.id, report.message))?;
    let mut table = Table::new(["node", "partition", "since", "step"]);
    for node in &report.rollout.nodes {
        table.row([
            node.node.clone(),
            node.partition.clone(),
            node.since.strftime("%H:%M:%S").to_string(),
            step_text(node),
        ]);
    }
    context.printer.raw(&table)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_or_a_percentage() {
        assert_eq!(share("3", 10).ok(), Some(3));
        assert_eq!(share("25%", 10).ok(), Some(2));
        assert_eq!(share("1%", 10).ok(), Some(1));
        for wrong in ["0", "0%", "101%", "-1", "x", "", "%"] {
            assert!(share(wrong, 10).is_err(), "{wrong:?}");
        }
    }
}
