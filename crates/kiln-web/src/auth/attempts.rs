//! How often somebody may try to log in. All who try come from the same address, so the limit is one for all.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many attempts may fail in a row, and then one every so often.
const BURST: u32 = 10;
const EVERY: Duration = Duration::from_secs(6);

pub struct Attempts {
    /// How many may fail at once, as of a moment.
    left: Mutex<(f64, Instant)>,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts { left: Mutex::new((f64::from(BURST), Instant::now())) }
    }
}

impl Attempts {
    /// Counts an attempt; `Err`: how long to wait for the next.
    pub fn begin(&self) -> Result<(), Duration> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = now.duration_since(left.1).as_secs_f64() / EVERY.as_secs_f64();
        *left = ((left.0 + gained).min(f64::from(BURST)), now);
        if left.0 < 1.0 {
            return Err(EVERY.mul_f64(1.0 - left.0));
        }
        left.0 -= 1.0;
        Ok(())
    }

    /// The attempt was a good one, and does not count.
    pub fn succeeded(&self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).0 += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_failures_count_and_time_heals() {
        let attempts = Attempts::default();
        for _ in 0..100 {
            attempts.begin().unwrap();
            attempts.succeeded();
        }
        for _ in 0..BURST {
            attempts.begin().unwrap();
        }
        let wait = attempts.begin().unwrap_err();
        assert!(wait <= EVERY, "{wait:?}");
        tokio::time::advance(EVERY).await;
        attempts.begin().unwrap();
        assert!(attempts.begin().is_err());
    }
}
