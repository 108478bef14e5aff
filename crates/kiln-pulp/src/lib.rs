//! Snapshots of package repositories on a Pulp server: a thin client of its REST API, and of the pages of servers that
//! can only be read.
//!
//! | of Pulp | here |
//! | --- | --- |
//! | remote | what a repository is filled from |
//! | repository version | what the repository had after a sync; a sync that finds nothing new makes none |
//! | publication | a version with what apt or dnf needs to read it |
//! | distribution | a publication at an address that does not change: a snapshot |

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
mod error;
mod format;
mod listing;
mod publication;
mod remote;
mod repository;
mod server;
mod snapshot;
mod sync;
mod task;

pub use error::{Error, Result};
pub use remote::Upstream;
pub use server::{Login, Server};
pub use snapshot::Snapshot;
pub use sync::{Limits, Outlook, Source, Synced};
