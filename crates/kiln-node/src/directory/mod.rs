//! The cluster's own directory of users, on the control node: `kiln user` asks for changes here. They are made over the server's own socket, where
//! root needs no password.

mod ldif;
mod users;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use kiln_slurm::accounts;
use kiln_wire::Version;
use kiln_wire::directory::{Deed, DirectoryAnswer, DirectoryRequest, DirectoryUser, NewUser};

use crate::lock::{self, LockError};
use crate::process::{self, Output, ProcessError};
use ldif::Changes;
use users::Content;

const SOCKET: &str = "ldapi://%2frun%2fslapd-kiln.socket";
const LIMIT: Duration = Duration::from_secs(60);
/// How long the control node may take to see a user who was added.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the directory does not answer")]
    Away(#[source] ProcessError),
    #[error("the directory could not be changed")]
    Change(#[source] ProcessError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the directory has a user {0} already")]
    Exists(String),
    #[error("the directory has a group {0} already")]
    GroupExists(String),
    #[error("this node has a user or group {0} that is not the directory's")]
    Local(String),
    #[error("the number {0} is taken in the directory")]
    NumberTaken(u32),
    #[error("all numbers for users are taken")]
    NoNumber,
    #[error("the directory has no user {0}")]
    Unknown(String),
    #[error("{0} has no such key")]
    NoKey(String),
    #[error("Slurm has no account {0}")]
    NoAccount(String),
    #[error("{user} has {count} jobs")]
    HasJobs { user: String, count: usize },
}

impl DirectoryError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            DirectoryError::Refused(Refusal::Exists(_)) => Some("`kiln user key` changes the keys of a user"),
            DirectoryError::Refused(Refusal::Local(_)) => {
                Some("choose another name, or remove the one that is in cluster.toml")
            }
            DirectoryError::Refused(Refusal::Unknown(_)) => Some("`kiln user list` shows who is there"),
            DirectoryError::Refused(Refusal::NoKey(_)) => {
                Some("name it by its comment, or by the whole key: `kiln --json user list` shows them")
            }
            DirectoryError::Refused(Refusal::NoAccount(_)) => {
                Some("write it into cluster.toml as [account.NAME], or make it with sacctmgr")
            }
            DirectoryError::Refused(Refusal::HasJobs { .. }) => {
                Some("wait until they have ended, or end them with --cancel-jobs")
            }
            DirectoryError::Away(_) => Some("`kiln doctor` says what is wrong with the control node"),
            _ => None,
        }
    }
}

/// Two changes at once would both see the same next number.
pub fn carry_out(request: &DirectoryRequest) -> Result<DirectoryAnswer, DirectoryError> {
    let _lock = match request.deed {
        Deed::List => None,
        _ => Some(lock::acquire_for_users(Path::new("/"))?),
    };
    let content = read(&request.base)?;
    let (users, warnings) = match &request.deed {
        Deed::List => (with_accounts(content.all()), Vec::new()),
        Deed::Add(new) => add(&request.base, &content, new)?,
        Deed::Remove { user, cancel_jobs } => remove(&content, user, *cancel_jobs)?,
        Deed::Keys { user, add, remove } => {
            let changes = content.keys(&content.find(user)?, add, remove)?;
            change(&changes)?;
            forget(user);
            (vec![read(&request.base)?.find(user)?], Vec::new())
        }
    };
    Ok(DirectoryAnswer { format: Version, users, warnings })
}

/// The number that the next user would get; `None`: the directory does not answer.
pub(crate) fn next_number(base: &str) -> Option<u32> {
    read(base).ok().map(|content| content.next())
}

/// From now on users get this number or later ones.
pub(crate) fn raise_number(base: &str, next: u32) -> Result<(), DirectoryError> {
    let _lock = lock::acquire_for_users(Path::new("/"))?;
    let content = read(base)?;
    if content.next() >= next { Ok(()) } else { change(&content.with_next(next)) }
}

fn read(base: &str) -> Result<Content, DirectoryError> {
    let search = [
        "ldapsearch",
        "-Q",
        "-Y",
        "EXTERNAL",
        "-H",
        SOCKET,
        "-LLL",
        "-o",
        "ldif-wrap=no",
        "-b",
        base,
        "(|(objectClass=posixAccount)(objectClass=posixGroup)(cn=numbers))",
    ];
    let found = process::run(&search, None, LIMIT).and_then(Output::checked).map_err(DirectoryError::Away)?;
    Ok(Content::new(base, &ldif::parse(&found.stdout)))
}

fn change(changes: &Changes) -> Result<(), DirectoryError> {
    let modify = ["ldapmodify", "-Q", "-Y", "EXTERNAL", "-H", SOCKET];
    let done = process::run(&modify, Some(changes.text()), LIMIT).and_then(Output::checked);
    done.map(drop).map_err(DirectoryError::Change)
}

type Outcome = (Vec<DirectoryUser>, Vec<String>);

fn add(base: &str, content: &Content, new: &NewUser) -> Result<Outcome, DirectoryError> {
    let changes = content.add(new)?;
    // Most of it is waiting for programs: what does not need one another waits together.
    let (local, has_account) = thread::scope(|scope| {
        let asked = scope.spawn(|| new.account.as_ref().map_or(Ok(true), |account| has_account(account)));
        let local = std::iter::once(&new.name).chain(&new.groups).find(|name| is_local(name));
        (local, joined(asked))
    });
    if let Some(name) = local {
        return Err(Refusal::Local(name.clone()).into());
    }
    if let Some(account) = new.account.as_ref().filter(|_| has_account.as_ref().is_ok_and(|has| !has)) {
        return Err(Refusal::NoAccount(account.clone()).into());
    }
    has_account?;
    change(&changes)?;
    forget(&new.name);
    // Slurm asks for the user's number when it hears of her.
    let is_seen = is_seen(&new.name);
    let (home, found, member) = thread::scope(|scope| {
        let member = scope.spawn(|| new.account.as_ref().map_or(Ok(()), |a| add_member(&new.name, a)));
        // Where homes are exported, only root of this node can make one.
        let home = is_seen.then(|| process::call(&["mkhomedir_helper", &new.name]));
        (home, read(base), joined(member))
    });
    member?;
    let mut warnings = Vec::new();
    match home {
        Some(Ok(_)) => {}
        Some(Err(error)) => {
            warnings.push(format!("the home of {} could not be made: {}", new.name, crate::explain(&error)));
        }
        None => {
            warnings.push(format!("the control node does not see {} yet: is sssd running there?", new.name));
        }
    }
    let user = found?.find(&new.name)?;
    let users = match &new.account {
        Some(account) => vec![DirectoryUser { account: Some(account.clone()), ..user }],
        None => with_accounts(vec![user]),
    };
    Ok((users, warnings))
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn add_member(user: &str, account: &str) -> Result<(), DirectoryError> {
    let (name, account) = (format!("name={user}"), format!("account={account}"));
    process::call(&["sacctmgr", "--immediate", "add", "user", &name, &account])?;
    Ok(())
}

/// A name of the node's own files goes before the directory's.
fn is_local(name: &str) -> bool {
    let known = |database: &str| {
        process::run(&["getent", "--service=files", database, name], None, LIMIT)
            .is_ok_and(|output| output.success())
    };
    known("passwd") || known("group")
}

fn has_account(account: &str) -> Result<bool, DirectoryError> {
    let name = format!("name={account}");
    let found = process::call(&[
        "sacctmgr",
        "--noheader",
        "--parsable2",
        "show",
        "account",
        &name,
        "format=account",
    ])?;
    Ok(found.stdout.lines().any(|line| line.trim() == account))
}

/// What sssd of this node knows of a user is asked for again.
fn forget(user: &str) {
    // It ends with an error where it knows nothing.
    let _ = process::run(&["sss_cache", "-u", user, "-G"], None, LIMIT);
}

fn is_seen(user: &str) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if process::run(&["getent", "passwd", user], None, LIMIT).is_ok_and(|output| output.success()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL);
    }
}

fn remove(content: &Content, user: &str, cancel_jobs: bool) -> Result<Outcome, DirectoryError> {
    let user = with_accounts(vec![content.find(user)?]).remove(0);
    let jobs = jobs(user.uid)?;
    if !jobs.is_empty() && !cancel_jobs {
        return Err(Refusal::HasJobs { user: user.name, count: jobs.len() }.into());
    }
    // First of all she gets in nowhere any more.
    change(&content.remove(&user))?;
    forget(&user.name);
    // It ends with an error where there are none.
    let _ = process::run(&["pkill", "-KILL", "-u", &user.uid.to_string()], None, LIMIT);
    let mut warnings = Vec::new();
    if !jobs.is_empty() {
        let command: Vec<&str> = std::iter::once("scancel").chain(jobs.iter().map(String::as_str)).collect();
        process::call(&command)?;
    }
    if user.account.is_some() {
        let deadline = Instant::now() + LIMIT;
        while let Err(why) = without_account(&user.name) {
            if Instant::now() >= deadline {
                warnings.push(why);
                break;
            }
            std::thread::sleep(POLL);
        }
    }
    Ok((vec![user], warnings))
}

/// By number: the name is known no longer than the user.
fn jobs(uid: u32) -> Result<Vec<String>, DirectoryError> {
    let user = format!("--user={uid}");
    let found = process::call(&["squeue", "--noheader", "--array", "--format=%i", &user])?;
    Ok(found.stdout.lines().map(|line| line.trim().to_string()).collect())
}

/// Slurm keeps an association that jobs use.
fn without_account(user: &str) -> Result<(), String> {
    let command = ["sacctmgr", "--immediate", "remove", "user", "where", &format!("name={user}")];
    let output = process::run(&command, None, LIMIT).map_err(|error| crate::explain(&error))?;
    let said = format!("{}{}", output.stdout, output.stderr);
    if accounts::is_in_use(&said) {
        return Err(format!("Slurm keeps the account of {user}, because jobs use it"));
    }
    Ok(())
}

/// Slurm's default account of each. Where slurmdbd does not answer, none is told.
fn with_accounts(users: Vec<DirectoryUser>) -> Vec<DirectoryUser> {
    let command = ["sacctmgr", "--noheader", "--parsable2", "show", "user", "format=user,defaultaccount"];
    let known = process::call(&command).map(|output| output.stdout).unwrap_or_default();
    let accounts: BTreeMap<&str, &str> = known.lines().filter_map(|line| line.split_once('|')).collect();
    let with = |user: DirectoryUser| {
        let account = accounts.get(user.name.as_str()).map(ToString::to_string);
        DirectoryUser { account: account.filter(|account| !account.is_empty()), ..user }
    };
    users.into_iter().map(with).collect()
}
