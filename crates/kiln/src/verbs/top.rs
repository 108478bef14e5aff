//! `kiln top`

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use kiln_top::{Api, Options};
use kiln_wire::dashboard::Role;

use super::dashboard::{answers, who};
use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Look at the cluster in this terminal, live
///
/// Nodes, queue, rollouts and events, as the dashboard has them; `?` shows the keys. An operator can pause, resume and abort
/// rollouts, and is asked first. Only what has changed is drawn, so that a slow line is enough.
#[derive(Debug, Args)]
pub struct Top {
    /// What may be done there: viewer or operator
    #[arg(long, default_value_t = Role::Operator, value_name = "ROLE", conflicts_with = "address")]
    role: Role,
    /// The name that stands in events about what is done there; default: the user's
    #[arg(long = "as", value_name = "NAME", conflicts_with = "address")]
    name: Option<String>,
    /// Draw what has changed at most once in so many seconds; keys are answered at once
    #[arg(long, default_value_t = 1, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
    /// Ask at this address, such as one that `kiln dashboard` has opened, and not over SSH
    #[arg(long, value_name = "URL", requires = "token_file")]
    address: Option<String>,
    /// A file with a token, which `kiln dashboard token add` gives; with --address
    #[arg(long, value_name = "PATH", requires = "address")]
    token_file: Option<PathBuf>,
}

impl Top {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if !is_terminal || context.printer.is_json() {
            return Err(anyhow!("`kiln top` draws on a terminal, and there is none"))
                .exit(Exit::Usage)
                .hint("`kiln status` prints the state once, with --json for programs");
        }
        match (&self.address, &self.token_file) {
            (Some(address), Some(token)) => self.at(context, address, token),
            _ => self.over_ssh(context),
        }
    }

    fn options(&self) -> Options {
        let has_colour = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
        Options { every: Duration::from_secs(self.every), has_colour }
    }

    fn at(&self, context: &Context, address: &str, token: &PathBuf) -> anyhow::Result<Exit> {
        let token = std::fs::read_to_string(token)
            .with_context(|| format!("cannot read {}", token.display()))
            .exit(Exit::Usage)?;
        context.interruptible(|stop| async {
            let (api, session) = match Api::with_token(address, &token).await {
                Err(error @ kiln_top::Error::Address { .. }) => {
                    return Err(error)
                        .exit(Exit::Usage)
                        .hint("http://127.0.0.1:PORT is one, and so is any that begins with https://");
                }
                answer => answer?,
            };
            kiln_top::watch(api, session, self.options(), stop).await?;
            Ok(Exit::Ok)
        })
    }

    fn over_ssh(&self, context: &Context) -> anyhow::Result<Exit> {
        let name = who(self.name.as_deref())?;
        cluster::with(context, async |deployment| {
            let dashboard = deployment.dashboard().await?;
            let admission = dashboard.login(&name, self.role).await?;
            let mut way = dashboard.open(None, admission.port).await?;
            answers(way.port).await?;
            let address = format!("http://127.0.0.1:{}", way.port);
            let (api, session) = Api::log_in(&address, admission.secret.expose_secret()).await?;
            let watching = kiln_top::watch(api, session, self.options(), deployment.stop.clone());
            tokio::select! {
                ended = watching => ended?,
                lost = way.ended() => return Err(lost).hint("run `kiln top` again"),
            }
            way.close().await;
            Ok(Exit::Ok)
        })
    }
}
