//! What can go wrong with a cloud, sorted by what the caller can do about it.

use std::time::Duration;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("the cloud has no {kind} {name}")]
    NotFound { kind: &'static str, name: String },
    #[error("{0}")]
    Conflict(String),
    #[error("the cloud refuses the credentials: {0}")]
    Unauthorized(String),
    #[error("the cloud rejects the request: {0}")]
    Invalid(String),
    #[error("the cloud has no room: {0}")]
    Quota(String),
    /// Worth trying again.
    #[error("the cloud asks to slow down")]
    Throttled { retry_after: Option<Duration> },
    /// Worth trying again.
    #[error("the cloud is not answering properly: {0}")]
    Transient(String),
    /// Whoever answers there shows a certificate that is not to be believed; says where and why.
    #[error("the cloud cannot be trusted: {0}")]
    Untrusted(String),
    /// This host lacks what the cloud needs; says what.
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Throttled { .. } | Error::Transient(_))
    }
}
