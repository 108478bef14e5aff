//! Trying again: the one place that decides when, for every driver.
//!
//! Exponential backoff with full jitter (a random wait between nothing and a ceiling that doubles), which
//! spreads out callers that failed together. A cloud that names its own delay is believed. A time budget
//! bounds the whole: when the next wait would pass it, the last error is returned. Within [`once`] nothing is tried again.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Error, Result};

#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Ceiling of the first wait.
    pub base: Duration,
    /// Ceiling of every wait.
    pub cap: Duration,
    /// From the first attempt to the start of the last.
    pub budget: Duration,
}

impl Policy {
    /// For a cloud on this machine.
    pub const LOCAL: Policy = Policy {
        base: Duration::from_millis(100),
        cap: Duration::from_secs(5),
        budget: Duration::from_secs(60),
    };
    /// For a cloud across a network.
    pub const REMOTE: Policy = Policy {
        base: Duration::from_millis(500),
        cap: Duration::from_secs(30),
        budget: Duration::from_secs(300),
    };

    /// How long to wait after the failure number `attempt` (from 0), or `None` to give up.
    /// `random` is in 0..1.
    pub fn wait_after(
        &self,
        error: &Error,
        attempt: u32,
        elapsed: Duration,
        random: f64,
    ) -> Option<Duration> {
        if !error.is_temporary() {
            return None;
        }
        let ceiling = self.base.saturating_mul(2u32.saturating_pow(attempt)).min(self.cap);
        let jitter = ceiling.mul_f64(random.clamp(0.0, 1.0));
        let wait = match error.retry_after() {
            // A little more than asked, so that many callers told the same do not return at once.
            Some(after) => after + jitter.min(after.mul_f64(0.25)),
            None => jitter,
        };
        (elapsed + wait <= self.budget).then_some(wait)
    }
}

tokio::task_local! {
    static ONCE: ();
}

/// Within `operation` every attempt is the only one: for a caller who has to look again before the next.
pub async fn once<T>(operation: impl Future<Output = T>) -> T {
    ONCE.scope((), operation).await
}

/// Whether the caller has to look again before the next attempt.
pub fn is_once() -> bool {
    ONCE.try_with(|()| ()).is_ok()
}

/// Calls `operation` until it succeeds, fails for good, or the budget is spent. It is told the number of the
/// attempt, from 0: a second attempt may meet the effects of a first whose answer was lost.
pub async fn retry<T, F, O>(policy: &Policy, mut operation: F) -> Result<T>
where
    F: FnMut(u32) -> O,
    O: Future<Output = Result<T>>,
{
    let start = Instant::now();
    let mut attempt = 0;
    loop {
        let error = match operation(attempt).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let wait = policy.wait_after(&error, attempt, start.elapsed(), rand::random::<f64>());
        let Some(wait) = wait.filter(|_| !is_once()) else { return Err(error) };
        tracing::debug!(attempt, ?wait, %error, "trying again");
        sleep(wait).await;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    const POLICY: Policy = Policy {
        base: Duration::from_secs(1),
        cap: Duration::from_secs(10),
        budget: Duration::from_secs(60),
    };

    fn transient() -> Error {
        Error::unanswered("busy")
    }

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let waits: Vec<_> = (0..6)
            .map(|n| POLICY.wait_after(&transient(), n, Duration::ZERO, 1.0).unwrap().as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn jitter_is_full() {
        assert_eq!(POLICY.wait_after(&transient(), 3, Duration::ZERO, 0.0), Some(Duration::ZERO));
        assert_eq!(POLICY.wait_after(&transient(), 3, Duration::ZERO, 0.5), Some(Duration::from_secs(4)));
    }

    #[test]
    fn the_clouds_own_delay_is_never_cut_short() {
        let error = Error::busy(Some(Duration::from_secs(20)));
        assert_eq!(POLICY.wait_after(&error, 0, Duration::ZERO, 0.0), Some(Duration::from_secs(20)));
        assert_eq!(POLICY.wait_after(&error, 9, Duration::ZERO, 1.0), Some(Duration::from_secs(25)));
        assert_eq!(POLICY.wait_after(&error, 0, Duration::from_secs(50), 0.0), None);
    }

    #[test]
    fn final_errors_and_spent_budgets_end_it() {
        assert_eq!(POLICY.wait_after(&Error::no_room("full"), 0, Duration::ZERO, 0.5), None);
        assert_eq!(POLICY.wait_after(&transient(), 0, Duration::from_secs(60), 1.0), None);
        assert_eq!(POLICY.wait_after(&transient(), u32::MAX, Duration::ZERO, 1.0), Some(POLICY.cap));
    }

    #[tokio::test(start_paused = true)]
    async fn it_tries_until_it_works() {
        let result = retry(&POLICY, |n| async move { if n < 3 { Err(transient()) } else { Ok(n) } }).await;
        assert_eq!(result.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_looks_again_gets_the_first_error() {
        let mut attempts = 0;
        let operation = retry(&POLICY, |n| {
            attempts = n + 1;
            async { Err::<(), _>(transient()) }
        });
        assert!(once(operation).await.is_err());
        assert_eq!(attempts, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_within_the_budget() {
        let start = Instant::now();
        let result: Result<()> = retry(&POLICY, |_| async { Err(transient()) }).await;
        assert!(matches!(result, Err(Error { class: Class::Unanswered, .. })));
        assert!(start.elapsed() <= POLICY.budget);
    }
}
