//! The words of the API that are not already in the shared types.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Error, Image};

/// An error as it travels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fault {
    pub code: Code,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// In seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    NotFound,
    Conflict,
    Unauthorized,
    Invalid,
    Quota,
    Throttled,
    Transient,
    Unsupported,
    Failed,
}

impl Code {
    pub fn http_status(self) -> u16 {
        match self {
            Code::NotFound => 404,
            Code::Conflict => 409,
            Code::Unauthorized => 401,
            Code::Invalid => 400,
            Code::Quota => 403,
            Code::Throttled => 429,
            Code::Transient => 503,
            Code::Unsupported => 501,
            Code::Failed => 500,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let plain = |code, message| Fault { code, message, kind: None, retry_after: None };
        match error {
            Error::NotFound { kind, name } => {
                Fault { kind: Some(kind.into()), ..plain(Code::NotFound, name) }
            }
            Error::Conflict(m) => plain(Code::Conflict, m),
            Error::Unauthorized(m) => plain(Code::Unauthorized, m),
            Error::Invalid(m) => plain(Code::Invalid, m),
            Error::Quota(m) => plain(Code::Quota, m),
            Error::Throttled { retry_after } => Fault {
                retry_after: retry_after.map(|d| d.as_secs_f64()),
                ..plain(Code::Throttled, "too many requests".into())
            },
            Error::Transient(m) => plain(Code::Transient, m),
            Error::Unsupported(m) => plain(Code::Unsupported, m),
            // Nobody shows a certificate to the local cloud's daemon.
            Error::Untrusted(m) | Error::Failed(m) => plain(Code::Failed, m),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let message = fault.message;
        match fault.code {
            Code::NotFound => Error::NotFound { kind: known_kind(fault.kind.as_deref()), name: message },
            Code::Conflict => Error::Conflict(message),
            Code::Unauthorized => Error::Unauthorized(message),
            Code::Invalid => Error::Invalid(message),
            Code::Quota => Error::Quota(message),
            Code::Throttled => Error::Throttled {
                retry_after: fault.retry_after.and_then(|s| Duration::try_from_secs_f64(s).ok()),
            },
            Code::Transient => Error::Transient(message),
            Code::Unsupported => Error::Unsupported(message),
            Code::Failed => Error::Failed(message),
        }
    }
}

fn known_kind(kind: Option<&str>) -> &'static str {
    let all = ["instance", "image", "volume", "network", "security group", "grant", "metadata"];
    all.into_iter().find(|k| Some(*k) == kind).unwrap_or("resource")
}

/// One answer of a bulk request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome<T> {
    Ok(T),
    Error(Fault),
}

impl<T> From<crate::Result<T>> for Outcome<T> {
    fn from(result: crate::Result<T>) -> Self {
        match result {
            Ok(value) => Outcome::Ok(value),
            Err(error) => Outcome::Error(error.into()),
        }
    }
}

impl<T> From<Outcome<T>> for crate::Result<T> {
    fn from(outcome: Outcome<T>) -> Self {
        match outcome {
            Outcome::Ok(value) => Ok(value),
            Outcome::Error(fault) => Err(fault.into()),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceRequest {
    pub suite: String,
    /// The `kiln` program to put into the image.
    pub executable: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum SourceStatus {
    Running { step: String },
    Ready { image: Box<Image> },
    Failed { fault: Fault },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PowerRequest {
    #[serde(default)]
    pub hard: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrantRequest {
    pub token_sha256: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pong {
    /// The daemon's program file has been replaced since it was started.
    pub outdated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Retired {
    /// `false`: there are instances or networks left, so the daemon stays.
    pub retired: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_journey() {
        let errors = [
            Error::NotFound { kind: "image", name: "x".into() },
            Error::Conflict("taken".into()),
            Error::Unauthorized("no".into()),
            Error::Invalid("bad".into()),
            Error::Quota("full".into()),
            Error::Throttled { retry_after: Some(Duration::from_millis(1500)) },
            Error::Transient("later".into()),
            Error::Unsupported("no such program".into()),
            Error::Failed("broken".into()),
        ];
        for error in errors {
            let text = serde_json::to_string(&Fault::from(error.clone())).unwrap();
            let back: Error = serde_json::from_str::<Fault>(&text).unwrap().into();
            assert_eq!(format!("{error:?}"), format!("{back:?}"));
        }
    }
}
