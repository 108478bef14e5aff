//! `kiln node`: what runs on a node itself.

mod apply;
pub mod backup;
mod boot;
mod check;
mod checkup;
mod directory;
mod install_units;
mod publish;
mod quota;
pub mod report;
mod request;
mod status;
mod unseal;

use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;

/// Work on the node this runs on
#[derive(Debug, Subcommand)]
pub enum Node {
    Apply(apply::Apply),
    Boot(boot::Boot),
    Check(check::Check),
    Status(status::Status),
    #[command(subcommand)]
    Backup(backup::Backup),
    #[command(hide = true)]
    Checkup(checkup::Checkup),
    #[command(hide = true)]
    Directory(directory::Directory),
    #[command(hide = true)]
    Identity(boot::Identity),
    #[command(hide = true)]
    KeepMetadata(boot::KeepMetadata),
    #[command(hide = true)]
    InstallUnits(install_units::InstallUnits),
    #[command(hide = true)]
    Published(publish::Published),
    #[command(hide = true)]
    Publish(publish::Publish),
    #[command(hide = true)]
    Quota(quota::Quota),
    #[command(hide = true)]
    Unseal(unseal::Unseal),
}

impl Node {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Node::Apply(verb) => verb.run(context),
            Node::Boot(verb) => verb.run(context),
            Node::Check(verb) => verb.run(context),
            Node::Status(verb) => verb.run(context),
            Node::Backup(verb) => verb.run(context),
            Node::Checkup(verb) => verb.run(context),
            Node::Directory(verb) => verb.run(context),
            Node::Identity(verb) => verb.run(context),
            Node::KeepMetadata(verb) => verb.run(context),
            Node::InstallUnits(verb) => verb.run(context),
            Node::Published(verb) => verb.run(context),
            Node::Publish(verb) => verb.run(context),
            Node::Quota(verb) => verb.run(context),
            Node::Unseal(verb) => verb.run(context),
        }
    }
}
