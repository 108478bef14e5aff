//! A token bucket: at most so many calls at once, then so many per second.
//!
//! The arithmetic is pure ([`Bucket::take`]); [`RateLimit`] adds the clock and the waiting.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

#[derive(Debug, Clone)]
struct Bucket {
    capacity: f64,
    per_second: f64,
    /// May be negative: calls already promised a later time.
    tokens: f64,
    at: Duration,
}

impl Bucket {
    fn new(burst: u32, per_second: f64) -> Self {
        let capacity = f64::from(burst.max(1));
        Bucket { capacity, per_second, tokens: capacity, at: Duration::ZERO }
    }

    /// Takes one token and says how long the caller has to wait for it. Callers are served in order.
    fn take(&mut self, now: Duration) -> Duration {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.capacity) - 1.0;
        if self.tokens >= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(-self.tokens / self.per_second)
        }
    }
}

#[derive(Debug)]
pub struct RateLimit {
    start: Instant,
    bucket: Mutex<Bucket>,
}

impl RateLimit {
    /// `burst` calls at once, `per_second` after that.
    pub fn new(burst: u32, per_second: f64) -> Self {
        RateLimit { start: Instant::now(), bucket: Mutex::new(Bucket::new(burst, per_second)) }
    }

    /// Returns when one more call may be made.
    pub async fn acquire(&self) {
        let wait = {
            let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.take(self.start.elapsed())
        };
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    #[test]
    fn a_burst_is_free_and_the_rest_queues() {
        let mut bucket = Bucket::new(2, 2.0);
        let waits: Vec<_> = (0..5).map(|_| bucket.take(Duration::ZERO)).collect();
        assert_eq!(waits, [secs(0.0), secs(0.0), secs(0.5), secs(1.0), secs(1.5)]);
    }

    #[test]
    fn idle_time_refills_up_to_the_burst_only() {
        let mut bucket = Bucket::new(2, 1.0);
        bucket.take(Duration::ZERO);
        bucket.take(Duration::ZERO);
        let waits: Vec<_> = (0..3).map(|_| bucket.take(secs(100.0))).collect();
        assert_eq!(waits, [secs(0.0), secs(0.0), secs(1.0)]);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_away() {
        let mut bucket = Bucket::new(1, 1.0);
        bucket.take(secs(10.0));
        assert_eq!(bucket.take(secs(5.0)), secs(1.0));
    }

    #[tokio::test(start_paused = true)]
    async fn acquiring_waits_on_the_clock() {
        let limit = RateLimit::new(1, 10.0);
        let start = Instant::now();
        for _ in 0..11 {
            limit.acquire().await;
        }
        assert!(start.elapsed() >= Duration::from_secs(1));
        assert!(start.elapsed() < Duration::from_millis(1200));
    }
}
