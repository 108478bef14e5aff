//! `kiln up`

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::verbs::{apply, configure};

/// Bring the cluster up: create missing secrets and images, apply, configure
///
/// Safe to repeat: an interrupted run is continued where it ended, and a cluster that matches the file is left alone.
#[derive(Debug, Args)]
pub struct Up {
    /// Do not ask before something is rebuilt or deleted
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    removal: apply::RemovalOptions,
}

#[derive(Serialize)]
struct Outcome {
    plan: kiln_deploy::Plan,
    configured: kiln_deploy::Configured,
    /// By node: where it is reached from outside the cluster's network.
    public_addresses: BTreeMap<String, String>,
}

impl Up {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let outcome = cluster::with(context, async |deployment| {
            deployment.check_secrets()?;
            deployment.build_missing_images().await?;
            let plan = deployment.plan(self.removal.removal()).await?;
            let mut plan = apply::carry_out(context, deployment, plan, &self.removal, self.yes).await?;
            let mut configured = deployment.configure(false).await?;
            // The control node may have come back only now.
            let mut ask_again = plan.held().iter().any(|node| node.unknown.is_some());
            while ask_again || self.removal.waited(deployment, &plan).await? {
                ask_again = false;
                let next = deployment.plan(self.removal.removal()).await?;
                let next = apply::carry_out(context, deployment, next, &self.removal, true).await?;
                plan = plan.followed_by(next);
                configured = deployment.configure(false).await?;
            }
            let hosts = deployment.inventory(&deployment.observe().await?)?.hosts;
            let public = hosts.into_iter().filter_map(|host| Some((host.name, host.public_address?)));
            Ok(Outcome { plan, configured, public_addresses: public.collect() })
        })?;
        configure::warn_of_lost_state(context, &outcome.configured);
        if context.printer.is_json() {
            context.printer.json(&outcome)?;
            return Ok(apply::tell_held(context, &outcome.plan, "up"));
        }
        let name = &outcome.plan.cluster;
        if outcome.plan.is_empty() && outcome.configured.changed() == 0 {
            context.printer.say(format!("cluster {name} is up; nothing changed"));
        } else {
            let changes = configure::summary(&outcome.configured);
            context.printer.say(format!("cluster {name} is up; {changes}"));
        }
        for (node, address) in &outcome.public_addresses {
            context.printer.say(format!("{node} is reached from outside at {address}"));
        }
        Ok(apply::tell_held(context, &outcome.plan, "up"))
    }
}
