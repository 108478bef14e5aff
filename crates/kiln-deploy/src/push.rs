//! A bundle is applied on a node over SSH. What takes long there is told while it lasts.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use kiln_image::{Event, Progress};
use kiln_ssh::{Host, Ssh};
use kiln_wire::bundle::Resource;
use kiln_wire::{ApplyReport, Bundle, Format as _};

use crate::error::{Error, Result};

/// How often it is told what a node is at. Most nodes are done before the first time.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What `kiln node apply` is told besides the bundle.
pub(crate) struct Push<'a> {
    pub ssh: &'a Ssh,
    pub progress: Progress<'a>,
    pub dry_run: bool,
    /// The id of a resource that is left for later, with those behind it.
    pub before: Option<&'a str>,
}

impl Push<'_> {
    pub async fn apply(&self, host: &Host, bundle: &Bundle) -> Result<ApplyReport> {
        let mut argv = vec!["kiln", "--json", "node", "apply", "--progress", "--bundle", "-"];
        if self.dry_run {
            argv.push("--dry-run");
        }
        argv.extend(self.before.iter().flat_map(|id| ["--before", id]));
        let json = bundle.to_json().map_err(|e| Error::NotReady(e.to_string()))?;
        let at = Mutex::new(String::new());
        let steps: BTreeSet<String> = bundle.resources.iter().map(Resource::id).collect();
        let applied = self.ssh.telling(host, &argv, &json, |line| {
            let is_step = steps.contains(line);
            if is_step {
                *lock(&at) = line.to_string();
            }
            is_step
        });
        let output = tokio::select! {
            output = applied => output.map_err(|error| broken(error, &lock(&at)))?,
            never = self.tell(&host.name, &at) => match never {},
        };
        let report = ApplyReport::from_json(output.stdout.as_bytes()).map_err(|_| {
            let said = output.stderr.lines().last().unwrap_or_default();
            Error::NotReady(format!("{}: `kiln node apply` ended with {}: {said}", host.name, output.status))
        })?;
        let failed = report.failures();
        if failed.is_empty() {
            return Ok(report);
        }
        Err(Error::NotReady(format!("{}:\n    {}", host.name, failed.join("\n    "))))
    }

    /// Each resource once, however long it takes.
    async fn tell(&self, node: &str, at: &Mutex<String>) -> std::convert::Infallible {
        let mut told = String::new();
        loop {
            tokio::time::sleep(TELL_EVERY).await;
            let now = lock(at).clone();
            if now != told {
                (self.progress)(Event::working(node, format!("configuring, now {now}")));
                told = now;
            }
        }
    }
}

/// With what the node was at, if it had begun.
fn broken(error: kiln_ssh::Error, at: &str) -> kiln_ssh::Error {
    match error {
        kiln_ssh::Error::Unreachable { host, message } if !at.is_empty() => {
            kiln_ssh::Error::Unreachable { host, message: format!("{message}, while it was at {at}") }
        }
        error => error,
    }
}

fn lock(at: &Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    at.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
