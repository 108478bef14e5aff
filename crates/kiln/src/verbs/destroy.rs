//! `kiln destroy`

use clap::Args;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Take the cluster down, with everything in the cloud that carries its label
///
/// Built images and the secrets beside the cluster file stay.
#[derive(Debug, Args)]
pub struct Destroy {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Keep the volumes of state, home directories and backups; the next `up` uses them again
    #[arg(long)]
    keep_volumes: bool,
    /// Show what would be deleted and delete nothing
    #[arg(long)]
    dry_run: bool,
}

impl Destroy {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let found = cluster::with(context, async |deployment| {
            let found = deployment.cluster_resources(self.keep_volumes).await?;
            if self.dry_run {
                return Ok(found);
            }
            if !found.is_empty() {
                context.printer.say(text(&found));
                let volumes: Vec<&str> = found.volumes.iter().map(|(_, name)| name.as_str()).collect();
                let data = cluster::volumes(&volumes).map(|v| format!(", with the data on {v}"));
                let question = format!("Deleting all of this permanently{}", data.unwrap_or_default());
                // What is on a volume cannot be made again, apart from what is on the share.
                if volumes.iter().any(|name| !name.ends_with("-share")) {
                    cluster::confirm_by_name(context, self.yes, &question, &deployment.spec.name)?;
                } else {
                    cluster::confirm(context, self.yes, &question)?;
                }
            }
            // Also when nothing is left: the cloud may still hold a token, or its own daemon.
            deployment.destroy(&found).await?;
            Ok(found)
        })?;
        if context.printer.is_json() {
            context.printer.json(&found)?;
        } else if self.dry_run {
            context.printer.data(text(&found))?;
        } else {
            let volumes = if self.keep_volumes { " but its volumes" } else { "" };
            context.printer.say(format!("nothing of the cluster is left in the cloud{volumes}"));
        }
        Ok(Exit::Ok)
    }
}

fn text(found: &kiln_deploy::ClusterResources) -> String {
    let kinds = [
        ("instance", &found.instances),
        ("security group", &found.security_groups),
        ("network", &found.networks),
        ("volume", &found.volumes),
    ];
    let lines =
        kinds.iter().flat_map(|(kind, list)| list.iter().map(move |(_, name)| format!("- {kind} {name}")));
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return "nothing of the cluster is in the cloud".to_owned();
    }
    lines.join("\n")
}
