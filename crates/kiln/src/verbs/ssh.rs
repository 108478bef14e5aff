//! `kiln ssh`

use std::os::unix::process::CommandExt as _;

use anyhow::Context as _;
use clap::Args;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Log in to a node as root, or run one command there
#[derive(Debug, Args)]
pub struct Ssh {
    node: String,
    /// Log in as this user, with the keys your own ssh has
    #[arg(short = 'l', long, value_name = "NAME")]
    user: Option<String>,
    /// What to run instead of a shell: one word is given to the remote shell as it is, several are arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Ssh {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let arguments = cluster::with(context, async |deployment| {
            let observed = deployment.observe().await?;
            let hosts = deployment.hosts(&observed, std::iter::once(self.node.as_str()))?;
            let ssh = deployment.ssh()?.patient();
            Ok(hosts
                .first()
                .map(|host| match &self.user {
                    Some(user) => ssh.arguments_as(host, user),
                    None => ssh.arguments(host),
                })
                .unwrap_or_default())
        })?;
        // One word is a line for the shell over there, as with ssh; several are arguments and stay what they are.
        let command = match self.command.as_slice() {
            [line] => line.clone(),
            words => words.iter().map(|word| kiln_ssh::quote(word)).collect::<Vec<_>>().join(" "),
        };
        // ssh takes this process's place, so that terminal, signals and exit code are its own.
        let error = std::process::Command::new("ssh")
            .args(arguments)
            .args((!command.is_empty()).then_some(command))
            .exec();
        Err(error).context("cannot start ssh").hint("install openssh-client")
    }
}
