//! What can go wrong on the control node.

use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the store {}", path.display())]
    OpenStore { path: PathBuf, source: rusqlite::Error },
    #[error(
        "the store {} was written by a newer Kiln (schema {found}, this one knows up to {known}): \
         install that Kiln again",
        path.display()
    )]
    NewerStore { path: PathBuf, found: u32, known: u32 },
    #[error(
        "the store {} is damaged ({problem}): stop kilnd, move the file away and start kilnd again; \
         rollouts have to be started again",
        path.display()
    )]
    DamagedStore { path: PathBuf, problem: String },
    #[error("the store does not answer")]
    Store(#[from] rusqlite::Error),
    #[error("the store has content that this Kiln does not understand: {0}")]
    StoreContent(String),
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    FleetFile(#[from] kiln_wire::FleetFileError),
    #[error(transparent)]
    CloudAccess(#[from] kiln_wire::CloudAccessError),
    #[error("{list:?} is not a list of nodes")]
    Hostlist { list: String, source: kiln_spec::hostlist::HostlistError },
    #[error(transparent)]
    Slurm(#[from] kiln_slurm::Error),
    #[error(transparent)]
    Cloud(#[from] kiln_cloud::Error),
    #[error("a node that is {step} cannot be {what}: {node}")]
    IllegalTransition { node: String, step: &'static str, what: &'static str },
    /// What was asked cannot be done; says what to do instead.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// With all causes, on one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// An error with all its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // A transparent error is its own source.
        if !text.ends_with(&error.to_string()) {
            text.push_str(": ");
            text.push_str(&error.to_string());
        }
        cause = error.source();
    }
    text
}

pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, source }
}
