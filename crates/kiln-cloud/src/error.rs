//! What can go wrong with a cloud. Every driver sorts its cloud's answers once, into a [`Class`] that says what the caller
//! can do about it; nobody above looks at status codes or words.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest delay that a cloud is taken at its word for. Nobody asks for more on purpose, and a time far in the future
/// cannot be computed.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

pub type Result<T> = std::result::Result<T, Error>;

/// An answer of a cloud that is not what was asked for. The message does not repeat the source.
#[derive(Debug, Clone)]
pub struct Error {
    pub class: Class,
    /// The cloud's own words, or the driver's. For [`Class::NotFound`] the name of what is not there.
    pub message: String,
    hint: Option<Cow<'static, str>>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Try again, after this long where the cloud says so: it has not done what was asked.
    Busy { after: Option<Duration> },
    /// Try again: no proper answer came. It may have done what was asked, or not.
    Unanswered,
    /// Look elsewhere: what the request is about does not exist.
    NotFound { kind: &'static str },
    /// Wait for somebody else's work to end, or remove what is in the way.
    Conflict,
    /// Ask for less, or elsewhere.
    NoRoom,
    /// Get other credentials.
    NoRights,
    /// Ask for something else: the same request will never succeed.
    Refused,
    /// Find out who answers there: its certificate cannot be trusted.
    Untrusted,
    /// Change the host or the cloud: something is missing that Kiln needs.
    Unsupported,
    /// Nothing: the cloud tried and failed.
    Failed,
}

impl Error {
    pub fn new(class: Class, message: impl Into<String>) -> Error {
        Error { class, message: message.into(), hint: None, source: None }
    }

    pub fn busy(after: Option<Duration>) -> Error {
        Error::new(Class::Busy { after: after.map(|after| after.min(LONGEST_DELAY)) }, "")
    }

    pub fn unanswered(message: impl Into<String>) -> Error {
        Error::new(Class::Unanswered, message)
    }

    pub fn not_found(kind: &'static str, name: impl Into<String>) -> Error {
        Error::new(Class::NotFound { kind }, name)
    }

    pub fn conflict(message: impl Into<String>) -> Error {
        Error::new(Class::Conflict, message)
    }

    pub fn no_room(message: impl Into<String>) -> Error {
        Error::new(Class::NoRoom, message)
    }

    pub fn no_rights(message: impl Into<String>) -> Error {
        Error::new(Class::NoRights, message)
    }

    pub fn refused(message: impl Into<String>) -> Error {
        Error::new(Class::Refused, message)
    }

    pub fn untrusted(message: impl Into<String>) -> Error {
        Error::new(Class::Untrusted, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(Class::Unsupported, message)
    }

    pub fn failed(message: impl Into<String>) -> Error {
        Error::new(Class::Failed, message)
    }

    #[must_use]
    pub fn with_hint(self, hint: impl Into<Cow<'static, str>>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }

    #[must_use]
    pub fn because(self, source: impl StdError + Send + Sync + 'static) -> Error {
        Error { source: Some(Arc::new(source)), ..self }
    }

    /// The same, with another message.
    #[must_use]
    pub fn saying(self, message: impl Into<String>) -> Error {
        Error { message: message.into(), ..self }
    }

    /// The same, with `what` in front of the message.
    #[must_use]
    pub fn about(self, what: &str) -> Error {
        let message = if self.message.is_empty() { what.into() } else { format!("{what}: {}", self.message) };
        self.saying(message)
    }

    /// The same, sorted differently by a driver that knows more.
    #[must_use]
    pub fn sorted(self, class: Class) -> Error {
        Error { class, ..self }
    }

    /// What a person can do about it, where the driver knows.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self.class, Class::Busy { .. } | Class::Unanswered)
    }

    /// How long the cloud asks to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.class {
            Class::Busy { after } => after,
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self.class, Class::NotFound { .. })
    }

    pub fn is_conflict(&self) -> bool {
        self.class == Class::Conflict
    }

    /// With all causes, on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lead = match self.class {
            Class::Busy { .. } if self.message.is_empty() => {
                return f.write_str("the cloud asks to slow down");
            }
            Class::NotFound { kind } => return write!(f, "the cloud has no {kind} {}", self.message),
            Class::Busy { .. } => "the cloud asks to slow down: ",
            Class::Unanswered => "the cloud is not answering properly: ",
            Class::NoRoom => "the cloud has no room: ",
            Class::NoRights => "the cloud refuses the credentials: ",
            Class::Refused => "the cloud rejects the request: ",
            Class::Untrusted => "the cloud cannot be trusted: ",
            Class::Conflict | Class::Unsupported | Class::Failed => "",
        };
        write!(f, "{lead}{}", self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_told_once() {
        let gone = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = Error::unanswered("no answer").about("compute").because(gone);
        assert_eq!(error.to_string(), "the cloud is not answering properly: compute: no answer");
        assert_eq!(
            error.chain(),
            "the cloud is not answering properly: compute: no answer: connection refused"
        );
    }

    #[test]
    fn what_the_caller_can_do_is_asked_of_the_error() {
        let after = Some(Duration::from_secs(3));
        assert!(Error::busy(after).is_temporary() && Error::unanswered("x").is_temporary());
        assert_eq!(Error::busy(after).retry_after(), after);
        assert_eq!(Error::busy(Some(Duration::MAX)).retry_after(), Some(LONGEST_DELAY));
        assert!(!Error::no_room("full").is_temporary());
        assert!(Error::not_found("image", "x").is_not_found());
        assert_eq!(Error::conflict("taken").with_hint("rename it").hint(), Some("rename it"));
    }
}
