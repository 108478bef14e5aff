//! `kiln apply`

use clap::Args;
use kiln_deploy::{Deployment, Plan, Removal};

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Create, rebuild or delete whatever differs between the file and the cloud
#[derive(Debug, Args)]
pub struct Apply {
    /// Do not ask before something is rebuilt or deleted
    #[arg(short, long)]
    yes: bool,
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    removal: RemovalOptions,
}

/// What happens to nodes that go while jobs run there.
#[derive(Debug, Args)]
pub struct RemovalOptions {
    /// Wait for the jobs on nodes that go, and finish
    ///
    /// Nodes that have left the file, and compute nodes with another flavor there, are drained. Those without jobs go at once.
    /// Without this option the others stay drained, and go when the command is run again.
    #[arg(long, conflicts_with = "now")]
    wait: bool,
    /// Delete nodes at once, with the jobs on them
    #[arg(long)]
    now: bool,
}

impl RemovalOptions {
    pub fn removal(&self) -> Removal {
        if self.now { Removal::Now } else { Removal::AfterJobs }
    }

    /// Whether to wait for these, and go on.
    pub async fn waited(&self, deployment: &Deployment<'_>, done: &Plan) -> anyhow::Result<bool> {
        let wait = self.wait && !done.held().is_empty();
        if wait {
            deployment.wait_until_free(done).await?;
        }
        Ok(wait)
    }
}

impl Apply {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let plan = cluster::with(context, async |deployment| {
            let plan = deployment.plan(self.removal.removal()).await?;
            if self.dry_run {
                return Ok(plan);
            }
            let mut done = carry_out(context, deployment, plan, &self.removal, self.yes).await?;
            while self.removal.waited(deployment, &done).await? {
                let plan = deployment.plan(self.removal.removal()).await?;
                done = done.followed_by(carry_out(context, deployment, plan, &self.removal, true).await?);
            }
            Ok(done)
        })?;
        if context.printer.is_json() {
            context.printer.json(&plan)?;
        } else if self.dry_run || plan.is_empty() {
            context.printer.data(&plan)?;
        }
        Ok(if self.dry_run { Exit::Ok } else { tell_held(context, &plan, "apply") })
    }
}

/// Shows the plan, asks for confirmation if it deletes or rebuilds something, and applies it. Returns what was carried out,
/// with the drains of nodes that jobs still hold.
pub async fn carry_out(
    context: &Context,
    deployment: &Deployment<'_>,
    plan: Plan,
    removal: &RemovalOptions,
    yes: bool,
) -> anyhow::Result<Plan> {
    if plan.is_empty() {
        deployment.grant().await?;
        return Ok(plan);
    }
    context.printer.say(&plan);
    plan.check_images()?;
    if plan.is_destructive() {
        cluster::confirm(context, yes, &question(&plan))?;
    }
    let plan = if plan.drains() {
        deployment.drain(&plan).await?;
        // Nodes that have no jobs are free by now, and no job can begin there.
        deployment.plan(removal.removal()).await?
    } else {
        plan
    };
    deployment.apply(&plan).await?;
    Ok(plan)
}

/// Says which nodes are still to go, and what to do about it.
pub fn tell_held(context: &Context, done: &Plan, verb: &str) -> Exit {
    let held = done.held();
    if held.is_empty() {
        return Exit::Ok;
    }
    for node in &held {
        context.printer.say(kiln_deploy::why_held(node));
    }
    let again = if held.iter().any(|node| node.unknown.is_none()) {
        format!(
            "run `kiln {verb}` again when they have ended, or with --wait; --now deletes the nodes with their jobs"
        )
    } else {
        format!(
            "run `kiln {verb}` again when Slurm answers; --now deletes the nodes with whatever runs there"
        )
    };
    context.printer.say(again);
    Exit::Changes
}

/// What a yes would do. Volumes are named, because their data would be gone.
fn question(plan: &Plan) -> String {
    let jobs: Vec<&str> = plan.lost_jobs().iter().map(|job| job.id.as_str()).collect();
    let jobs = match jobs.as_slice() {
        [] => String::new(),
        [one] => format!(" with job {one}"),
        many => format!(" with {} jobs ({})", many.len(), many.join(", ")),
    };
    let instances = format!("Rebuilding or deleting these instances{jobs}");
    let volumes = cluster::volumes(&plan.deleted_volumes());
    match volumes {
        None => instances,
        Some(volumes) if plan.changes_instances() => format!("{instances} and deleting {volumes}"),
        Some(volumes) => format!("Deleting {volumes}"),
    }
}
