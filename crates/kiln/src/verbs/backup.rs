//! `kiln backup`

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::verbs::node::backup::table;

/// Make, list, fetch and bring back backups of accounting and Slurm's state
///
/// The control node makes one every day by itself: see the table `[backup]` of the cluster file. `kiln restore` puts one back.
#[derive(Debug, Subcommand)]
pub enum Backup {
    Now(Now),
    List(List),
    Fetch(Fetch),
    Put(Put),
}

/// Make a backup now
#[derive(Debug, Args)]
pub struct Now {
    /// Why it is made, for the list
    #[arg(long, default_value = "kiln backup now", value_name = "WORDS")]
    reason: String,
}

/// List the backups on the control node, newest first
#[derive(Debug, Args)]
pub struct List {}

/// Copy a backup to this host
#[derive(Debug, Args)]
pub struct Fetch {
    name: String,
    /// Where the directory with the backup's name is created
    #[arg(default_value = ".")]
    directory: PathBuf,
}

/// Copy a backup that was fetched to the control node
#[derive(Debug, Args)]
pub struct Put {
    /// The directory of the backup
    directory: PathBuf,
}

impl Backup {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Backup::Now(verb) => verb.run(context),
            Backup::List(verb) => verb.run(context),
            Backup::Fetch(verb) => verb.run(context),
            Backup::Put(verb) => verb.run(context),
        }
    }
}

impl Now {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let made = cluster::with(context, async |deployment| {
            Ok(deployment.backups().await?.make(&self.reason).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&made)?;
        } else {
            context.printer.data(&made.name)?;
        }
        Ok(Exit::Ok)
    }
}

impl List {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let list = cluster::with(context, async |deployment| Ok(deployment.backups().await?.list().await?))?;
        if context.printer.is_json() {
            context.printer.json(&list)?;
            return Ok(Exit::Ok);
        }
        if list.backups.is_empty() && list.unreadable.is_empty() {
            context.printer.say("there is no backup yet; `kiln backup now` makes one");
            return Ok(Exit::Ok);
        }
        context.printer.foreign(&table(&list).to_string())?;
        if let Some(name) = &list.left_behind {
            context.printer.warn(started_empty(name));
        }
        Ok(Exit::Ok)
    }
}

/// Where a cluster has lost its state: never said too late.
pub fn started_empty(newest: &str) -> String {
    format!(
        "accounting and the queue started empty after the backup {newest}: `kiln restore` puts it back, \
         `kiln backup now` keeps what is there now"
    )
}

impl Fetch {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let path = cluster::with(context, async |deployment| {
            Ok(deployment.backups().await?.fetch(&self.name, &self.directory).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&serde_json::json!({ "name": self.name, "path": path }))?;
        } else {
            context.printer.data(path.display())?;
        }
        Ok(Exit::Ok)
    }
}

impl Put {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let name = cluster::with(context, async |deployment| {
            Ok(deployment.backups().await?.put(&self.directory).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&serde_json::json!({ "name": name }))?;
        } else {
            context.printer.data(name)?;
        }
        Ok(Exit::Ok)
    }
}
