//! `kiln user`

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use kiln_deploy::UserChange;
use kiln_spec::{Spec, ssh_key_fault, user_name_fault};
use kiln_wire::directory::{Deed, DirectoryUser, NewUser};

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::table::Table;

/// Add, remove and list users of the cluster's directory
///
/// For a file with `kind = "server"` in `[directory]`. A change is in effect on all nodes at once; `kiln configure` is not needed.
#[derive(Debug, Subcommand)]
pub enum User {
    Add(Add),
    Remove(Remove),
    List(List),
    Key(Key),
}

/// Add a user
///
/// The user can log in to login nodes at once, and has a home directory.
#[derive(Debug, Args)]
pub struct Add {
    name: String,
    /// A public key that the user logs in with: a .pub file, whose lines are all taken
    #[arg(short, long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The user's name in full
    #[arg(long, value_name = "TEXT")]
    full_name: Option<String>,
    /// A group that the user is in; one that the directory does not have is made
    #[arg(short, long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Slurm's account of the user's jobs, which must exist
    #[arg(short, long, value_name = "ACCOUNT")]
    account: Option<String>,
    /// The user may become root on every node, without a password
    #[arg(long)]
    sudo: bool,
    /// Numeric id; the next free one from 70000 otherwise
    #[arg(long, value_parser = clap::value_parser!(u32).range(1000..=i64::from(u32::MAX) - 2))]
    uid: Option<u32>,
    /// Login shell
    #[arg(long, default_value = "/bin/bash", value_name = "PATH")]
    shell: String,
}

/// Remove a user
///
/// The user can no longer log in, loses Slurm's accounts, and what the user has running ends. The home directory stays.
#[derive(Debug, Args)]
pub struct Remove {
    name: String,
    /// Cancel the user's jobs; otherwise a user with jobs is not removed
    #[arg(long)]
    cancel_jobs: bool,
}

/// List the users
#[derive(Debug, Args)]
pub struct List {}

/// Add or remove public keys of a user
#[derive(Debug, Args)]
#[group(required = true, multiple = true, id = "change")]
pub struct Key {
    name: String,
    /// Add the keys of this .pub file
    #[arg(long, value_name = "FILE", group = "change")]
    add: Vec<PathBuf>,
    /// Remove a key: the comment at its end, or all of it
    #[arg(long, value_name = "KEY", group = "change")]
    remove: Vec<String>,
}

impl User {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let changed = cluster::with(context, async |deployment| {
            let deed = self.deed(deployment.spec)?;
            Ok(deployment.change_users(deed).await?)
        })?;
        show(context, &self, &changed)?;
        Ok(Exit::Ok)
    }

    /// What is asked of the directory. What cannot be right is not asked for.
    fn deed(&self, spec: &Spec) -> anyhow::Result<Deed> {
        Ok(match self {
            User::List(_) => Deed::List,
            User::Add(add) => Deed::Add(add.user(spec)?),
            User::Remove(remove) => {
                checked_name("a user", &remove.name)?;
                Deed::Remove { user: remove.name.clone(), cancel_jobs: remove.cancel_jobs }
            }
            User::Key(key) => {
                checked_name("a user", &key.name)?;
                Deed::Keys { user: key.name.clone(), add: keys(&key.add)?, remove: key.remove.clone() }
            }
        })
    }
}

impl Add {
    fn user(&self, spec: &Spec) -> anyhow::Result<NewUser> {
        checked_name("a user", &self.name)?;
        for group in &self.groups {
            checked_name("a group", group)?;
        }
        if spec.users.iter().any(|user| user.name == self.name) {
            return Err(anyhow!("{} is a user of the cluster file", self.name))
                .exit(Exit::Usage)
                .hint("a user is in the file or in the directory, not in both");
        }
        if let Some(user) = spec.users.iter().find(|user| Some(user.uid) == self.uid) {
            return Err(anyhow!("{} of the cluster file has the number {}", user.name, user.uid))
                .exit(Exit::Usage);
        }
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/-_.+".contains(c);
        if !self.shell.starts_with('/') || !self.shell.chars().all(is_path) {
            return Err(anyhow!("{} is not a login shell", self.shell))
                .exit(Exit::Usage)
                .hint("e.g. /bin/bash");
        }
        let full_name = self.full_name.as_deref().unwrap_or(&self.name).trim();
        if full_name.is_empty() || full_name.contains(|c: char| c.is_control() || c == ':') {
            return Err(anyhow!("this cannot be a name in full")).exit(Exit::Usage);
        }
        Ok(NewUser {
            name: self.name.clone(),
            full_name: full_name.to_string(),
            uid: self.uid,
            shell: self.shell.clone(),
            keys: keys(&self.keys)?,
            groups: self.groups.clone(),
            sudo: self.sudo,
            account: self.account.clone(),
        })
    }
}

fn checked_name(kind: &str, name: &str) -> anyhow::Result<()> {
    match user_name_fault(name) {
        Some(fault) => Err(anyhow!("{kind} cannot be named {name}")).exit(Exit::Usage).hint(fault),
        None => Ok(()),
    }
}

/// The keys of these files.
fn keys(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let all = files.iter().map(|file| keys_of(file)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(all.concat())
}

fn keys_of(file: &Path) -> anyhow::Result<Vec<String>> {
    let name = file.display();
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {name}")).exit(Exit::Usage)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<String> = lines.map(String::from).collect();
    if keys.is_empty() {
        return Err(anyhow!("{name} has no key")).exit(Exit::Usage);
    }
    for key in &keys {
        if let Some(fault) = ssh_key_fault(key) {
            return Err(anyhow!("{name}: {fault}")).exit(Exit::Usage).hint("give a .pub file");
        }
    }
    Ok(keys)
}

fn show(context: &Context, verb: &User, changed: &UserChange) -> anyhow::Result<()> {
    for warning in &changed.warnings {
        context.printer.warn(warning);
    }
    if let Some(told) = changed.told.as_ref().filter(|told| !told.others.is_empty()) {
        context
            .printer
            .warn(format!("{} could not be told, and will know within 5 minutes", told.others.join(", ")));
    }
    if context.printer.is_json() {
        return context.printer.json(&changed.users);
    }
    let nodes = changed.told.as_ref().map(|told| told.nodes).unwrap_or_default();
    let nodes = if nodes == 1 { "1 node".to_string() } else { format!("{nodes} nodes") };
    let Some(user) = changed.users.first() else {
        context.printer.say("the directory has no users");
        return Ok(());
    };
    match verb {
        User::List(_) => context.printer.raw(table(&changed.users))?,
        User::Add(_) => {
            context.printer.say(format!("{} is there on {nodes}, with the number {}", user.name, user.uid));
        }
        User::Remove(_) => {
            context.printer.say(format!("{} is gone from {nodes}; /home/{} is left", user.name, user.name));
        }
        User::Key(_) => {
            let count = user.keys.len();
            let keys = if count == 1 { "1 key".to_string() } else { format!("{count} keys") };
            context.printer.say(format!("{} has {keys} on {nodes}", user.name));
        }
    }
    Ok(())
}

fn table(users: &[DirectoryUser]) -> Table {
    let mut table = Table::new(["user", "uid", "name", "groups", "account", "keys", "sudo"]);
    for user in users {
        table.row([
            user.name.clone(),
            user.uid.to_string(),
            user.full_name.clone(),
            user.groups.join(","),
            user.account.clone().unwrap_or_default(),
            user.keys.len().to_string(),
            if user.sudo { "yes" } else { "" }.to_string(),
        ]);
    }
    table
}
