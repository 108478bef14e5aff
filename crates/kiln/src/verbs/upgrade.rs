//! `kiln upgrade`

use std::fmt::Write as _;

use clap::Args;
use kiln_deploy::{Begin, Outlook, Upgraded, WayBack};

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Move the cluster to a Slurm that is too far away for `kiln up`
///
/// Slurm takes over database and state of a few earlier releases only. Across a larger distance all nodes are rebuilt at
/// once, and Slurm starts with an empty database and queue. Users, accounts, limits and QOS are kept; the history of jobs is exported. What is done and
/// what is not kept is said before it starts. Safe to repeat: an upgrade that was cut off continues.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// Agree to a time without the cluster, and to an empty database and queue
    #[arg(long, required_unless_present_any = ["abort", "back"])]
    maintenance: bool,
    /// Let running jobs end first; no other starts meanwhile
    #[arg(long, conflicts_with = "at")]
    wait: bool,
    /// Begin at this time, in Slurm's words such as 2026-11-17T08:00 or now+2hours; no job starts that would cross it
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Give up an upgrade that waits for jobs
    #[arg(long, conflicts_with_all = ["maintenance", "wait", "at", "yes", "dry_run"])]
    abort: bool,
    /// Return to the Slurm before a maintenance upgrade, with the old source of the image in the file
    #[arg(long, conflicts_with_all = ["maintenance", "wait", "at", "abort"])]
    back: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Show what would be done and kept, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Upgrade {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.abort {
            return abort(context);
        }
        if self.back {
            return back(context, self.yes, self.dry_run);
        }
        let begin = match self.at {
            Some(time) => Begin::At(time),
            None if self.wait => Begin::WhenJobsEnd,
            None => Begin::Now,
        };
        let (outlook, upgraded) = cluster::with(context, async |deployment| {
            let outlook = deployment.upgrade_outlook().await?;
            if self.dry_run {
                return Ok((outlook, None));
            }
            outlook.check_begin(&begin)?;
            context.printer.say(text(&outlook));
            let question = format!("Taking cluster {} down for this upgrade", outlook.cluster);
            cluster::confirm(context, self.yes, &question)?;
            let upgraded = deployment.upgrade(&outlook, &begin).await?;
            Ok((outlook, Some(upgraded)))
        })?;
        match (&upgraded, context.printer.is_json()) {
            (None, true) => context.printer.json(&outlook)?,
            (None, false) => context.printer.data(text(&outlook))?,
            (Some(upgraded), true) => context.printer.json(upgraded)?,
            (Some(upgraded), false) => end(context, &outlook, upgraded),
        }
        Ok(Exit::Ok)
    }
}

fn abort(context: &Context) -> anyhow::Result<Exit> {
    let there = cluster::with(context, async |deployment| Ok(deployment.abort_upgrade().await?))?;
    if context.printer.is_json() {
        context.printer.json(&serde_json::json!({ "aborted": there }))?;
    } else if there {
        context.printer.say("the upgrade is given up; jobs start again");
    } else {
        context.printer.say("no upgrade waits; nothing changed");
    }
    Ok(Exit::Ok)
}

fn back(context: &Context, yes: bool, dry_run: bool) -> anyhow::Result<Exit> {
    let back = cluster::with(context, async |deployment| {
        let back = deployment.way_back().await?;
        if dry_run {
            return Ok(back);
        }
        back.check_jobs()?;
        context.printer.say(back_text(&back));
        let question = format!("Taking cluster {} down to go back", back.cluster);
        cluster::confirm(context, yes, &question)?;
        deployment.go_back(&back).await?;
        Ok(back)
    })?;
    if context.printer.is_json() {
        context.printer.json(&back)?;
    } else if dry_run {
        context.printer.data(back_text(&back))?;
    } else {
        context.printer.say(format!("cluster {} runs Slurm {} again", back.cluster, back.to));
    }
    Ok(Exit::Ok)
}

fn back_text(back: &WayBack) -> String {
    let lost = back.queue.running.iter().chain(&back.queue.waiting);
    let lost = lost.fold(String::new(), |text, job| text + "\n  lost: " + &job.waiting_line());
    format!(
        "Back to Slurm {} on cluster {}, with the data in {}\n\
         What the newer Slurm has written is put aside in the same directory: jobs and changes of accounts since the upgrade \
         are lost to Slurm.{lost}\n{}",
        back.to, back.cluster, back.directory, back.plan
    )
}

fn end(context: &Context, outlook: &Outlook, upgraded: &Upgraded) {
    for warning in &upgraded.restored.warnings {
        context.printer.warn(warning);
    }
    let to = outlook.to.as_deref().unwrap_or("the new release");
    context.printer.say(format!(
        "cluster {} runs Slurm {to}\nhistory, queue and data of the old Slurm are on {} in {}",
        outlook.cluster, outlook.control, upgraded.directory
    ));
}

/// What is done, and what is not kept.
fn text(outlook: &Outlook) -> String {
    let version = |release: &Option<String>| release.clone().unwrap_or_else(|| "unknown".to_owned());
    let (from, to) = (version(&outlook.from), version(&outlook.to));
    let mut text = if outlook.begun {
        format!("Maintenance upgrade of cluster {} to Slurm {to}, continued:", outlook.cluster)
    } else {
        format!(
            "Maintenance upgrade of cluster {}: Slurm {from} -> {to}\n\
             Slurm {to} cannot take over database and state of Slurm {from}, so Slurm starts with an empty database and queue.\n\
             \x20 kept: users, accounts, limits, QOS, coordinators, drained nodes, the numbers of jobs, home directories\n\
             \x20 not kept: the history of jobs and of usage (exported as text and as SQL dump)\n\
             \x20 not kept: waiting jobs, which users must submit again (exported with their scripts), and reservations\n\
             \x20 put aside: database and state of Slurm {from}, on the state volume\n\
             Nobody can work on the cluster meanwhile.",
            outlook.cluster
        )
    };
    for job in &outlook.queue.running {
        let _ = write!(text, "\n  runs: {}", job.line());
    }
    for job in &outlook.queue.waiting {
        let _ = write!(text, "\n  lost: {}", job.waiting_line());
    }
    for name in &outlook.reservations {
        let _ = write!(text, "\n  lost: reservation {name}");
    }
    for node in &outlook.drained {
        let _ = write!(text, "\n  stays drained: {node}");
    }
    let _ = write!(text, "\n{}", outlook.plan);
    text
}
