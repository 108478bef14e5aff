//! What the cloud said when it was asked for an instance, and when to ask again. Pure.

use std::time::Duration;

use kiln_cloud::{Class, Instance};

/// Between two tries. They go on for as long as Slurm waits for the node.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What came of asking for one instance.
pub enum Answer {
    Made(Box<Instance>),
    /// Not here; perhaps elsewhere.
    NoRoom(String),
    /// Worth another try after a while.
    Later {
        wait: Option<Duration>,
        problem: String,
    },
    Never(String),
}

/// The longer it has been in vain, the longer until the next try.
pub fn backoff(age: Duration) -> Duration {
    (age / 4).clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

impl From<kiln_cloud::Result<Instance>> for Answer {
    fn from(answer: kiln_cloud::Result<Instance>) -> Self {
        let error = match answer {
            Ok(instance) => return Answer::Made(Box::new(instance)),
            Err(error) => error,
        };
        let problem = error.chain();
        match error.class {
            Class::NoRoom => Answer::NoRoom(problem),
            // A conflict: the one before is still being deleted.
            Class::Busy { .. } | Class::Unanswered | Class::Conflict => {
                Answer::Later { wait: error.retry_after(), problem }
            }
            Class::NoRights => Answer::Never(format!("{problem}; `kiln configure` brings valid ones")),
            Class::NotFound { .. }
            | Class::Refused
            | Class::Untrusted
            | Class::Unsupported
            | Class::Failed => Answer::Never(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_the_age_of_the_request() {
        assert_eq!([0, 40, 9999].map(|age| backoff(Duration::from_secs(age)).as_secs()), [1, 10, 30]);
    }
}
