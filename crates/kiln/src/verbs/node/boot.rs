//! `kiln node boot`

use clap::Args;
use kiln_node::{BootOptions, BootOutcome};
use serde_json::json;

use super::report;
use crate::context::Context;
use crate::exit::Exit;

/// Do what this node does at boot: read its metadata, fetch its bundle, apply it
///
/// A node that has to wait for `kiln configure` says why; that is not a failure.
#[derive(Debug, Args)]
pub struct Boot {}

impl Boot {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let outcome = kiln_node::boot(&BootOptions::default())?;
        let printer = &context.printer;
        if printer.is_json() {
            printer.json(&as_json(&outcome))?;
            return Ok(Exit::Ok);
        }
        match outcome {
            BootOutcome::Configured(applied) => printer.say(report::count(&applied)),
            BootOutcome::AlreadyConfigured => printer.say("this node is configured"),
            // These two were reported while booting.
            BootOutcome::Build | BootOutcome::WaitingForConfigure { .. } => {}
        }
        Ok(Exit::Ok)
    }
}

fn as_json(outcome: &BootOutcome) -> serde_json::Value {
    match outcome {
        BootOutcome::Build => json!({ "outcome": "build" }),
        BootOutcome::Configured(report) => json!({ "outcome": "configured", "report": report }),
        BootOutcome::AlreadyConfigured => json!({ "outcome": "already-configured" }),
        BootOutcome::WaitingForConfigure { reason } => {
            json!({ "outcome": "waiting-for-configure", "reason": reason })
        }
    }
}

/// Take on this node's identity: host name, SSH host key, root's key
#[derive(Debug, Args)]
pub struct Identity {}

impl Identity {
    #[allow(clippy::unused_self, reason = "every verb is run the same way")]
    pub fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        kiln_node::identify(&BootOptions::default())?;
        Ok(Exit::Ok)
    }
}

/// Keep the instance's metadata to root, as long as this runs
#[derive(Debug, Args)]
pub struct KeepMetadata {
    /// Let this user in, too
    #[arg(long, value_name = "UID")]
    also: Option<u32>,
}

impl KeepMetadata {
    pub fn run(self, _context: &Context) -> anyhow::Result<Exit> {
        match kiln_node::keep_metadata(self.also)? {}
    }
}
