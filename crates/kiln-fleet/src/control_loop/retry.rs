//! What to do about a call to the cloud that failed, and how long to wait before another attempt.

use std::time::Duration;

use kiln_cloud::Class;

/// What a failed call means for the request that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Worth another attempt, after this long where the cloud says so.
    Temporary { wait: Option<Duration>, problem: String },
    /// The cloud has no room here, perhaps elsewhere.
    NoRoom(String),
    /// The same call would fail again.
    Final(String),
}

impl From<&kiln_cloud::Error> for Failure {
    fn from(error: &kiln_cloud::Error) -> Self {
        let problem = error.chain();
        match error.class {
            // A conflict: the cloud works on the instance for somebody else, or is still deleting the one before.
            Class::Busy { .. } | Class::Unanswered | Class::Conflict => {
                Failure::Temporary { wait: error.retry_after(), problem }
            }
            Class::NoRoom => Failure::NoRoom(problem),
            Class::NoRights => Failure::Final(format!("{problem}; `kiln configure` brings valid ones")),
            Class::NotFound { .. }
            | Class::Refused
            | Class::Untrusted
            | Class::Unsupported
            | Class::Failed => Failure::Final(problem),
        }
    }
}

/// Spread at random, so that requests that failed together are not retried together. A delay that the cloud asked for is
/// never shortened.
pub fn delay(usual: Duration, asked: Option<Duration>) -> Duration {
    spread(usual, asked, rand::random())
}

/// `random` is in 0..1.
fn spread(usual: Duration, asked: Option<Duration>, random: f64) -> Duration {
    match asked {
        Some(asked) => asked.mul_f64(1.0 + random / 4.0),
        None => usual.mul_f64(0.5 + random / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_sorted_by_what_can_be_done() {
        use kiln_cloud::Error;
        let temporary = |e: Error| matches!(Failure::from(&e), Failure::Temporary { .. });
        assert!(temporary(Error::busy(None)) && temporary(Error::conflict("being built")));
        assert!(!temporary(Error::refused("no such image")));
        assert!(matches!(Failure::from(&Error::no_room("full")), Failure::NoRoom(_)));
    }

    #[test]
    fn delays_differ_and_are_never_shorter_than_asked() {
        let delay = |asked: Option<u64>, random| {
            spread(Duration::from_secs(8), asked.map(Duration::from_secs), random).as_secs()
        };
        assert_eq!([0.0, 1.0].map(|random| delay(None, random)), [4, 8]);
        assert_eq!([0.0, 1.0].map(|random| delay(Some(60), random)), [60, 75]);
    }
}
