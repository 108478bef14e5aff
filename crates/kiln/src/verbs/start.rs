//! `kiln start`

use std::fmt::Write as _;

use clap::Args;
use kiln_deploy::Started;
use kiln_spec::hostlist;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Wake a cluster that `kiln stop` has put to sleep
///
/// The control node comes first, with its volumes and services, then the others. When Slurm has the compute nodes back, jobs start
/// again. What an administrator has drained stays drained. Also gives up a `kiln stop` that waits for jobs. Safe to repeat:
/// an interrupted run is continued.
#[derive(Debug, Args)]
pub struct Start {
    /// Show what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Start {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (outlook, started) = cluster::with(context, async |deployment| {
            let outlook = deployment.start_outlook().await?;
            if self.dry_run {
                return Ok((outlook, None));
            }
            let started = deployment.start_cluster(&outlook).await?;
            Ok((outlook, Some(started)))
        })?;
        match (&started, context.printer.is_json()) {
            (None, true) => context.printer.json(&outlook)?,
            (None, false) => context.printer.data(&outlook)?,
            (Some(started), true) => context.printer.json(started)?,
            (Some(_), false) if outlook.is_done() => {
                context.printer.say(format!("cluster {} is awake; nothing changed", outlook.cluster));
            }
            (Some(started), false) => context.printer.say(text(started)),
        }
        Ok(Exit::Ok)
    }
}

fn text(started: &Started) -> String {
    let jobs = match started.jobs {
        0 => "the queue is empty".to_owned(),
        1 => "1 job is in the queue".to_owned(),
        many => format!("{many} jobs are in the queue"),
    };
    let mut text = format!("cluster {} is awake; {jobs}", started.cluster);
    if !started.out_of_service.is_empty() {
        let nodes = hostlist::fold(started.out_of_service.iter().map(String::as_str));
        let _ = write!(text, "\n{nodes}: out of service as before; `kiln status` shows why");
    }
    text
}
