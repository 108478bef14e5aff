//! Applying a bundle: resource after resource, each compared with what is there and changed only if it
//! differs. One that fails does not hold up those that do not depend on it; a mount that fails holds up everything.

mod account;
mod command;
mod directory;
mod file;
mod growth;
mod link;
mod mount;
pub(crate) mod quota;
mod removal;
mod service;
mod session;
mod site_mount;
mod slurm_accounts;
#[cfg(test)]
mod tests;
mod usermod;

use std::path::PathBuf;
use std::time::Instant;

use kiln_wire::bundle::{Bundle, Resource};
use kiln_wire::{ApplyReport, Outcome, ResourceReport};

use crate::explain;
use crate::lock::{self, LockError};
use crate::process::ProcessError;
use crate::tree::TreeError;
use crate::verdict::Verdict;
use session::Session;
pub(crate) use site_mount::unit_of;

#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// Change nothing, report everything.
    pub dry_run: bool,
    /// `/` on a node. Below another root only files, directories and links are applied; users, mounts and
    /// services are skipped, and commands run on this system.
    pub root: PathBuf,
    /// The id of a resource: it and those behind it are left for later, and the bundle does not count as applied.
    pub before: Option<String>,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        ApplyOptions { dry_run: false, root: "/".into(), before: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Source(#[from] crate::mounts::SourceError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot {doing}")]
    Io { doing: String, source: std::io::Error },
    /// The message says all there is.
    #[error("{0}")]
    Refused(String),
}

/// What is told while a bundle is applied.
pub enum Turn<'a> {
    /// The id of the resource whose turn it is.
    Begins(&'a str),
    Ended(&'a ResourceReport),
}

/// Applies the bundle, calling `tell` before and after each resource. Failures are in the report.
pub fn apply(bundle: &Bundle, options: &ApplyOptions, tell: &mut dyn FnMut(Turn<'_>)) -> ApplyReport {
    let mut reports = Reports { list: Vec::new(), tell };
    // A dry run only reads; it need not wait for another.
    let lock = if options.dry_run { Ok(None) } else { lock::acquire(&options.root).map(Some) };
    match lock {
        Err(error) => reports.add("kiln:lock".into(), Instant::now(), failure(&error.into())),
        Ok(_lock) => match Session::start(bundle, options) {
            Err(error) => reports.add("kiln:state".into(), Instant::now(), failure(&error)),
            Ok(session) => run(session, bundle, options.before.as_deref(), &mut reports),
        },
    }
    ApplyReport {
        format: kiln_wire::Version,
        node: bundle.node.clone(),
        digest: bundle.digest(),
        dry_run: options.dry_run,
        resources: reports.list,
    }
}

fn run(mut session: Session, bundle: &Bundle, before: Option<&str>, reports: &mut Reports) {
    removal::apply(&mut session, bundle, reports);
    session.failed_beside(reports.failed().map(|report| report.id.clone()));
    let wanted = bundle.resources.iter().take_while(|resource| before.is_none_or(|id| resource.id() != id));
    for resource in wanted {
        let start = Instant::now();
        let id = resource.id();
        (reports.tell)(Turn::Begins(&id));
        let verdict = match session.blocked_by(resource) {
            Some(other) => Verdict::new(Outcome::Skipped, format!("{other} failed")),
            None => dispatch(&mut session, resource).unwrap_or_else(|error| failure(&error)),
        };
        let noted = session.note(bundle, resource, &verdict);
        reports.add(id, start, verdict);
        if let Err(error) = noted {
            session.failed_beside(["kiln:state".into()]);
            reports.add("kiln:state".into(), start, failure(&error));
        }
    }
    let start = Instant::now();
    let ok = reports.failed().next().is_none();
    let finished = match before {
        Some(_) => session.pause(),
        None => session.finish(bundle, ok),
    };
    if let Err(error) = finished {
        reports.add("kiln:state".into(), start, failure(&error));
    }
}

fn dispatch(session: &mut Session, resource: &Resource) -> Result<Verdict, ApplyError> {
    let needs_system = match resource {
        // What can never be a mount is refused below any root.
        Resource::Mount(mount) => mount::check(mount).map(|()| true)?,
        Resource::Group(_) | Resource::User(_) | Resource::Service(_) | Resource::Accounts(_) => true,
        _ => false,
    };
    if needs_system && !session.live {
        return Ok(Verdict::new(Outcome::Skipped, "not the running system"));
    }
    match resource {
        Resource::Group(group) => account::apply_group(session, group),
        Resource::User(user) => account::apply_user(session, user),
        Resource::Directory(directory) => directory::apply(session, directory),
        Resource::File(file) => file::apply(session, file),
        Resource::Link(link) => link::apply(session, link),
        Resource::Mount(mount) => mount::apply(session, mount, &resource.id()),
        Resource::Command(command) => command::apply(session, command, &resource.id()),
        Resource::Service(service) => service::apply(session, service, &resource.id()),
        Resource::Accounts(accounts) => slurm_accounts::apply(session, accounts),
    }
}

fn failure(error: &ApplyError) -> Verdict {
    Verdict::new(Outcome::Failed, explain(error))
}

struct Reports<'a> {
    list: Vec<ResourceReport>,
    tell: &'a mut dyn FnMut(Turn<'_>),
}

impl Reports<'_> {
    fn failed(&self) -> impl Iterator<Item = &ResourceReport> {
        self.list.iter().filter(|report| report.outcome == Outcome::Failed)
    }

    fn add(&mut self, id: String, start: Instant, verdict: Verdict) {
        let report = ResourceReport {
            id,
            outcome: verdict.outcome,
            summary: verdict.summary,
            diff: verdict.diff,
            millis: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        (self.tell)(Turn::Ended(&report));
        self.list.push(report);
    }
}
