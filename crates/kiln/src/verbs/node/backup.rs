//! `kiln node backup`: the backups of this control node.

use clap::{Args, Subcommand};
use kiln_node::backup::{self, BackupError, Occasion};

use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::table::Table;

/// Work on the backups of this control node
#[derive(Debug, Subcommand)]
pub enum Backup {
    Now(Now),
    List(List),
    Load(Load),
    #[command(hide = true)]
    Receive(Receive),
    #[command(hide = true)]
    PutBack(PutBack),
    #[command(hide = true)]
    Check(Check),
}

/// Make a backup of accounting, slurmctld's state, the directory of users and kilnd's store
#[derive(Debug, Args)]
pub struct Now {
    /// Why it is made, for the list
    #[arg(long, default_value = "asked for on the control node", value_name = "WORDS")]
    reason: String,
    /// Made by the timer
    #[arg(long, hide = true)]
    scheduled: bool,
}

/// List the backups, newest first
#[derive(Debug, Args)]
pub struct List {}

/// Put a backup back: stop Slurm's daemons and kilnd, replace their data, start them
///
/// What is there now is kept as a backup first. Jobs that came after the backup are lost.
#[derive(Debug, Args)]
pub struct Load {
    name: String,
}

/// Take a backup from standard input, a tar archive of its files
#[derive(Debug, Args)]
pub struct Receive {
    name: String,
}

/// Put a backup in place before Slurm's daemons and kilnd are started for the first time
#[derive(Debug, Args)]
pub struct PutBack {
    /// Its directory
    path: std::path::PathBuf,
}

/// Tell what is wrong with the backups
#[derive(Debug, Args)]
pub struct Check {}

impl Backup {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Backup::Now(verb) => verb.run(context),
            Backup::List(verb) => verb.run(context),
            Backup::Load(verb) => verb.run(context),
            Backup::Receive(verb) => verb.run(context),
            Backup::PutBack(verb) => verb.run(context),
            Backup::Check(verb) => verb.run(context),
        }
    }
}

fn advised<T>(result: Result<T, BackupError>) -> anyhow::Result<T> {
    result.or_else(|error| match error.hint() {
        Some(hint) => Err(error).hint(hint),
        None => Err(error.into()),
    })
}

impl Now {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let occasion = if self.scheduled { Occasion::Scheduled } else { Occasion::Asked(self.reason) };
        let made = advised(backup::now(&occasion))?;
        if context.printer.is_json() {
            context.printer.json(&made)?;
        } else {
            context.printer.data(format!("{} ({} KiB)", made.path.display(), made.bytes.div_ceil(1024)))?;
        }
        Ok(Exit::Ok)
    }
}

impl List {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let list = advised(backup::list())?;
        if context.printer.is_json() {
            context.printer.json(&list)?;
        } else {
            context.printer.raw(table(&list))?;
        }
        Ok(Exit::Ok)
    }
}

/// Also what `kiln backup list` shows.
pub fn table(list: &kiln_wire::BackupList) -> Table {
    let mut table = Table::new(["name", "slurm", "kib", "reason"]);
    for backup in &list.backups {
        table.row([
            backup.name.clone(),
            backup.slurm.clone(),
            backup.bytes().div_ceil(1024).to_string(),
            backup.reason.clone(),
        ]);
    }
    for name in &list.unreadable {
        table.row([name.clone(), String::new(), String::new(), "damaged: it has no manifest".into()]);
    }
    table
}

impl Load {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let loaded = advised(backup::load(&self.name, &|text| context.printer.say(text)))?;
        if context.printer.is_json() {
            context.printer.json(&loaded)?;
        } else {
            context.printer.say(format!("{} is restored", self.name));
        }
        Ok(Exit::Ok)
    }
}

impl Receive {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        advised(backup::receive(&self.name))?;
        Ok(Exit::Ok)
    }
}

impl PutBack {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let loaded = advised(backup::put_back(&self.path, &|text| context.printer.say(text)))?;
        if context.printer.is_json() {
            context.printer.json(&loaded)?;
        }
        Ok(Exit::Ok)
    }
}

impl Check {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match backup::problem() {
            None => Ok(Exit::Ok),
            Some(problem) => {
                context.printer.data(problem)?;
                Ok(Exit::Failed)
            }
        }
    }
}
