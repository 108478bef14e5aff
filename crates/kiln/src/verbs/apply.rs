//! `kiln apply`

use clap::Args;
use kiln_deploy::{Deployment, Plan};

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
}

impl Apply {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let plan = cluster::with(context, async |deployment| {
            let plan = deployment.plan().await?;
            if !self.dry_run {
                carry_out(context, deployment, &plan, self.yes).await?;
            }
            Ok(plan)
        })?;
        if context.printer.is_json() {
            context.printer.json(&plan)?;
        } else if self.dry_run || plan.is_empty() {
            context.printer.data(&plan)?;
        }
        Ok(Exit::Ok)
    }
}

/// Shows the plan, asks for confirmation if it deletes or rebuilds something, and applies it.
pub async fn carry_out(
    context: &Context,
    deployment: &Deployment<'_>,
    plan: &Plan,
    yes: bool,
) -> anyhow::Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    context.printer.say(plan);
    plan.check_images()?;
    if plan.is_destructive() {
        cluster::confirm(context, yes, &question(plan))?;
    }
    Ok(deployment.apply(plan).await?)
}

/// What a yes would do. Volumes are named, because their data would be gone.
fn question(plan: &Plan) -> String {
    let instances = "Rebuilding or deleting these instances";
    let volumes = cluster::volumes(&plan.deleted_volumes());
    match volumes {
        None => instances.to_owned(),
        Some(volumes) if plan.changes_instances() => format!("{instances} and deleting {volumes}"),
        Some(volumes) => format!("Deleting {volumes}"),
    }
}
