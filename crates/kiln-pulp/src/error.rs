//! What can go wrong with a Pulp server, in words.

use std::time::Duration;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("the Pulp server at {address} does not answer: {why}")]
    Unreachable { address: String, why: String },
    #[error("{address} is not a Pulp server: {why}")]
    NotPulp { address: String, why: String },
    #[error("the Pulp server refuses the user {user}: {words}")]
    NoRights { user: String, words: String },
    #[error("the Pulp server is up but cannot sync: it has no {what}")]
    NotReady { what: &'static str },
    #[error("the Pulp server refuses to {what}: {words}")]
    Refused { what: String, words: String },
    #[error("the Pulp server failed to {what}: {why}")]
    TaskFailed { what: String, why: String },
    #[error("somebody canceled the task on the Pulp server that was to {what}")]
    Canceled { what: String },
    #[error("the Pulp server did not {what} within {} minutes{}", minutes(*.limit), its_task(*.canceled))]
    TimedOut { what: String, limit: Duration, canceled: bool },
    #[error("stopped as requested{}", its_task(*.canceled))]
    Stopped { canceled: bool },
    #[error("there is nothing in the repository {path} after its sync")]
    Empty { path: String },
    #[error("{url} lists no snapshots")]
    NoSnapshots { url: String },
}

fn minutes(limit: Duration) -> String {
    let minutes = limit.as_secs_f64() / 60.0;
    format!("{}", (minutes * 10.0).round() / 10.0)
}

fn its_task(canceled: bool) -> &'static str {
    if canceled {
        "; its task was canceled"
    } else {
        "; its task still runs, because canceling it failed too"
    }
}

impl Error {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Error::Unreachable { .. } => "is it up, and is `address` of [pulp] right?",
            Error::NotPulp { .. } => "`address` of [pulp] is the server's address without a path",
            Error::NoRights { .. } => {
                "see `credentials` of [pulp]; the user must be able to sync and to publish"
            }
            Error::NotReady { .. } => "start the server's missing service; `pulp status` shows which it has",
            Error::TimedOut { .. } => "what was fetched is kept: run it again, with a longer --timeout",
            Error::Empty { .. } => "are the source's address, suites and components right?",
            Error::NoSnapshots { .. } => "is the source's path on the server right?",
            Error::TaskFailed { .. } => "is the source's address right, and can the server reach it?",
            _ => return None,
        })
    }

    /// The same request may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }
}
