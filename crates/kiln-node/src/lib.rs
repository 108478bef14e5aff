//! Kiln on the node: read the instance's metadata, fetch the node's bundle, apply it and report.
//!
//! Everything here is synchronous: it runs once, as root, before anything else on the node matters.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod accounts;
pub mod apply;
pub mod backup;
pub mod boot;
mod checkup;
mod diff;
pub mod directory;
pub mod epilog;
pub mod health;
mod http;
mod lock;
mod managed;
pub mod metadata;
mod mounts;
mod process;
pub mod quota;
mod report;
pub mod state;
mod systemd;
mod tell_bundle;
mod tree;
pub mod units;
mod verdict;

pub use apply::{ApplyOptions, Turn, apply};
pub use boot::{BootError, BootOptions, BootOutcome, boot, identify, keep_metadata, try_again};
pub use checkup::checkup;
pub use metadata::{Metadata, MetadataError};
pub use report::{Reader, ReportError, report};
pub use state::applied;

/// Renders an error with the chain of its causes on one line.
pub(crate) fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
