//! `kiln dashboard token`

use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use kiln_wire::dashboard::{Role, TokenReport};

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::table::Table;

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Give somebody a token, and print it; only its hash is kept
    Add {
        name: String,
        /// What may be done with it: viewer or operator
        #[arg(long, default_value_t = Role::Viewer, value_name = "ROLE")]
        role: Role,
        /// How long it is good for, such as 12h or 90d; a year at most
        #[arg(long = "for", default_value = "90d", value_name = "DURATION")]
        life: String,
    },
    /// List whom tokens were given to
    List,
    /// End a token, and the sessions that were begun with it
    Remove { name: String },
}

impl Token {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Token::Add { name, role, life } => {
                let life = life_of(&life)?;
                let admission = cluster::with(context, async |deployment| {
                    Ok(deployment.dashboard().await?.add_token(&name, role, life).await?)
                })?;
                if context.printer.is_json() {
                    context.printer.json(&admission)?;
                } else {
                    context.printer.data(admission.secret.expose_secret())?;
                    let until = admission.expires.strftime("%Y-%m-%d %H:%M UTC");
                    context
                        .printer
                        .say(format!("{name} is {role} until {until}; the token is not shown again"));
                }
            }
            Token::List => {
                let tokens = cluster::with(context, async |deployment| {
                    Ok(deployment.dashboard().await?.tokens().await?)
                })?;
                show(context, &tokens)?;
            }
            Token::Remove { name } => {
                let left = cluster::with(context, async |deployment| {
                    Ok(deployment.dashboard().await?.remove_token(&name).await?)
                })?;
                if context.printer.is_json() {
                    context.printer.json(&left)?;
                } else {
                    context.printer.say(format!("the token of {name} is no longer good"));
                }
            }
        }
        Ok(Exit::Ok)
    }
}

fn show(context: &Context, tokens: &[TokenReport]) -> anyhow::Result<()> {
    if context.printer.is_json() {
        return context.printer.json(&tokens);
    }
    let mut table = Table::new(["name", "role", "created", "good until"]);
    for token in tokens {
        let time = |time: jiff::Timestamp| time.strftime("%Y-%m-%d %H:%M:%S").to_string();
        table.row([token.name.clone(), token.role.to_string(), time(token.created), time(token.expires)]);
    }
    context.printer.raw(&table)?;
    Ok(())
}

fn life_of(text: &str) -> anyhow::Result<Duration> {
    kiln_spec::duration(text)
        .ok_or_else(|| anyhow!("--for takes a duration, not {text:?}"))
        .exit(Exit::Usage)
        .hint("such as 12h or 90d")
}
