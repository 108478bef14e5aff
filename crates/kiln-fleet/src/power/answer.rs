//! What the cloud said when it was asked for an instance, and when to ask again. Pure.

use std::time::Duration;

use kiln_cloud::{Error as CloudError, Instance};

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
        match answer {
            Ok(instance) => Answer::Made(Box::new(instance)),
            Err(CloudError::Quota(problem)) => Answer::NoRoom(format!("the cloud has no room: {problem}")),
            Err(CloudError::Throttled { retry_after }) => {
                Answer::Later { wait: retry_after, problem: "the cloud asks to slow down".into() }
            }
            // A conflict: the one before is still being deleted.
            Err(error @ (CloudError::Transient(_) | CloudError::Conflict(_))) => {
                Answer::Later { wait: None, problem: error.to_string() }
            }
            Err(error @ CloudError::Unauthorized(_)) => {
                Answer::Never(format!("{error}; `kiln configure` brings valid ones"))
            }
            Err(error) => Answer::Never(error.to_string()),
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
