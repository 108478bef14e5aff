//! `kiln secrets`

use clap::{Args, Subcommand};
use kiln_site::{Secret, services};
use serde::Serialize;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::table::Table;

/// List and rotate the cluster's secrets; their values are never shown
#[derive(Debug, Subcommand)]
pub enum Secrets {
    List(List),
    Rotate(Rotate),
    Adopt(Adopt),
}

/// List the secrets and what each is for; those that are missing are created
#[derive(Debug, Args)]
pub struct List {}

/// Replace one secret; `kiln configure` distributes it to the nodes
#[derive(Debug, Args)]
pub struct Rotate {
    /// As `kiln secrets list` names it
    name: String,
}

/// Take over a cluster whose `.kiln` was lost: its id is read from the cloud
///
/// Kiln touches only resources with the id that `.kiln` holds. After this, `kiln destroy` and `kiln apply` treat the
/// cluster as their own. The other secrets are not in the cloud: its nodes accept the new ones when they are recreated.
#[derive(Debug, Args)]
pub struct Adopt {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    purpose: &'static str,
    path: String,
    rotation_pending: bool,
}

impl Secrets {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Secrets::List(_) => list(context),
            Secrets::Rotate(rotate) => rotate.run(context),
            Secrets::Adopt(adopt) => adopt.run(context),
        }
    }
}

fn list(context: &Context) -> anyhow::Result<Exit> {
    let rows = cluster::with(context, async |deployment| {
        let store = &deployment.secrets;
        store.ensure()?;
        let row = |secret: &Secret| Row {
            name: secret.name,
            purpose: secret.purpose,
            path: store.path(secret).display().to_string(),
            rotation_pending: store.previous_path(secret).exists(),
        };
        Ok(store.secrets.iter().copied().map(row).collect::<Vec<_>>())
    })?;
    if context.printer.is_json() {
        context.printer.json(&rows)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["secret", "rotation", "purpose"]);
    for row in rows {
        let rotation = if row.rotation_pending { "waits for configure" } else { "" };
        table.row([row.name.to_owned(), rotation.to_owned(), row.purpose.to_owned()]);
    }
    context.printer.raw(&table)?;
    Ok(Exit::Ok)
}

impl Rotate {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let secrets = services::secrets();
        let names = secrets.iter().map(|secret| secret.name).collect::<Vec<_>>().join(", ");
        let secret = secrets
            .into_iter()
            .find(|secret| secret.name == self.name)
            .ok_or_else(|| anyhow::anyhow!("there is no secret {}", self.name))
            .exit(Exit::Usage)
            .hint(format!("the secrets are {names}"))?;
        cluster::with(context, async |deployment| Ok(deployment.secrets.rotate(secret)?))?;
        context
            .printer
            .say(format!("{} is rotated; run `kiln configure` to distribute it to the nodes", secret.name));
        Ok(Exit::Ok)
    }
}

impl Adopt {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let id = cluster::with(context, async |deployment| {
            let id = deployment.id_in_cloud().await?;
            if deployment.secrets.cluster_id()?.as_ref() != Some(&id) {
                let name = &deployment.spec.name;
                cluster::confirm(
                    context,
                    self.yes,
                    &format!("Taking over the cluster {name} with the id {id}"),
                )?;
                deployment.secrets.set_cluster_id(&id)?;
            }
            Ok(id)
        })?;
        if context.printer.is_json() {
            context.printer.json(&serde_json::json!({ "id": id }))?;
        } else {
            context.printer.say(format!("the cluster with the id {id} is this one"));
        }
        Ok(Exit::Ok)
    }
}
