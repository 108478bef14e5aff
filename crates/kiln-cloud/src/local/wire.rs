//! The words of the API that are not already in the shared types.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Class, Error, Image, Kind, Labels};

/// An error as it travels. Its source stays behind: the message has all its words.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fault {
    pub code: Code,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
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

impl From<Class> for Code {
    fn from(class: Class) -> Code {
        match class {
            Class::NotFound { .. } => Code::NotFound,
            Class::Conflict => Code::Conflict,
            Class::NoRights => Code::Unauthorized,
            Class::Refused => Code::Invalid,
            Class::NoRoom => Code::Quota,
            Class::Busy { .. } => Code::Throttled,
            Class::Unanswered => Code::Transient,
            Class::Unsupported => Code::Unsupported,
            // Nobody shows a certificate to the local cloud's daemon.
            Class::Untrusted | Class::Failed => Code::Failed,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let message = match std::error::Error::source(&error) {
            Some(source) => format!("{}: {}", error.message, causes(source)),
            None => error.message.clone(),
        };
        let kind = match error.class {
            Class::NotFound { kind } => Some(kind.into()),
            _ => None,
        };
        Fault {
            code: error.class.into(),
            message,
            hint: error.hint().map(String::from),
            kind,
            retry_after: error.retry_after().map(|d| d.as_secs_f64()),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let class = match fault.code {
            Code::NotFound => Class::NotFound { kind: known_kind(fault.kind.as_deref()) },
            Code::Conflict => Class::Conflict,
            Code::Unauthorized => Class::NoRights,
            Code::Invalid => Class::Refused,
            Code::Quota => Class::NoRoom,
            Code::Throttled => {
                let after = fault.retry_after.and_then(|s| Duration::try_from_secs_f64(s).ok());
                Class::Busy { after }
            }
            Code::Transient => Class::Unanswered,
            Code::Unsupported => Class::Unsupported,
            Code::Failed => Class::Failed,
        };
        let error = Error::new(class, fault.message);
        match fault.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

fn causes(source: &dyn std::error::Error) -> String {
    match source.source() {
        Some(below) => format!("{source}: {}", causes(below)),
        None => source.to_string(),
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

/// Adds labels to one resource.
#[derive(Debug, Serialize, Deserialize)]
pub struct LabelRequest {
    pub kind: Kind,
    pub labels: Labels,
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
            Error::not_found("image", "x"),
            Error::conflict("taken"),
            Error::no_rights("no"),
            Error::refused("bad"),
            Error::no_room("full"),
            Error::busy(Some(Duration::from_millis(1500))),
            Error::unanswered("later"),
            Error::unsupported("no such program").with_hint("install it"),
            Error::failed("broken"),
        ];
        for error in errors {
            let text = serde_json::to_string(&Fault::from(error.clone())).unwrap();
            let back: Error = serde_json::from_str::<Fault>(&text).unwrap().into();
            assert_eq!(format!("{error:?}"), format!("{back:?}"));
        }
    }
}
