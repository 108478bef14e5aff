//! `kiln stop`

use clap::Args;
use kiln_deploy::{StopOutlook, Stopped, Stopping};

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Put the whole cluster to sleep: instances stop, data and queue stay
///
/// No job starts any more, and running jobs end first. Then a backup is made, nodes of elastic groups are deleted, and all other
/// instances are stopped, the control node last. Volumes, addresses, the queue and the history of jobs stay. `kiln start`
/// wakes the cluster, or gives up a stop that waits for jobs. Safe to repeat: an interrupted run is continued.
#[derive(Debug, Args)]
pub struct Stop {
    /// Wait for the jobs that run, and finish
    ///
    /// Without this option, where jobs run, the queue stays closed and the rest is done when the command is run again.
    #[arg(long, conflicts_with = "now")]
    wait: bool,
    /// Do not wait for running jobs: requeue those that may be, end the others
    #[arg(long)]
    now: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Show what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Stop {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let stopping = if self.now { Stopping::Now } else { Stopping::AfterJobs };
        let (outlook, stopped) = cluster::with(context, async |deployment| {
            let outlook = deployment.stop_outlook().await?;
            if self.dry_run {
                return Ok((outlook, None));
            }
            outlook.check(stopping)?;
            if !outlook.is_done() {
                context.printer.say(&outlook);
                cluster::confirm(context, self.yes, &question(&outlook, stopping))?;
            }
            let stopped = deployment.stop_cluster(&outlook, stopping, self.wait).await?;
            Ok((outlook, Some(stopped)))
        })?;
        let Some(stopped) = stopped else {
            if context.printer.is_json() {
                context.printer.json(&outlook)?;
            } else {
                context.printer.data(&outlook)?;
            }
            return Ok(Exit::Ok);
        };
        if context.printer.is_json() {
            context.printer.json(&stopped)?;
        }
        Ok(end(context, &outlook, &stopped))
    }
}

fn end(context: &Context, outlook: &StopOutlook, stopped: &Stopped) -> Exit {
    if let Some(error) = &stopped.backup_error {
        context.printer.warn(format!("no backup was made: {error}"));
    }
    let name = &stopped.cluster;
    if !stopped.asleep {
        context.printer.say(format!("cluster {name} is about to sleep, and no job starts; these still run:"));
        for job in &stopped.waits_for {
            context.printer.say(format!("  {}", job.line()));
        }
        context.printer.say(
            "run `kiln stop` again when they have ended, or with --wait; --now ends them; `kiln start` lets jobs start again",
        );
        return Exit::Changes;
    }
    if outlook.is_done() {
        context.printer.say(format!("cluster {name} is asleep; nothing changed"));
    } else {
        context.printer.say(format!("cluster {name} is asleep; `kiln start` wakes it"));
    }
    Exit::Ok
}

/// What a yes would do to whom.
fn question(outlook: &StopOutlook, stopping: Stopping) -> String {
    let instances = match outlook.instances() {
        1 => "the one instance".to_owned(),
        many => format!("the {many} instances"),
    };
    let jobs: Vec<&str> = outlook.jobs.running().iter().map(|job| job.id.as_str()).collect();
    let jobs = match (stopping, jobs.as_slice()) {
        (Stopping::AfterJobs, _) | (_, []) => String::new(),
        (Stopping::Now, [one]) => format!(", requeueing or ending job {one}"),
        (Stopping::Now, many) => format!(", requeueing or ending {} jobs ({})", many.len(), many.join(", ")),
    };
    format!("Stopping {instances} of cluster {}{jobs}", outlook.cluster)
}
