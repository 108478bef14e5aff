//! How often somebody may try to log in, by the address they come from. All who come over loopback have one together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many attempts may fail in a row, and then one every so often.
const BURST: u32 = 10;
const EVERY: Duration = Duration::from_secs(6);
/// With more addresses than this, those are forgotten that have all their attempts again.
const KNOWN: usize = 1024;

#[derive(Default)]
pub struct Attempts {
    /// How many may fail at once, as of a moment.
    left: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl Attempts {
    /// Counts an attempt; `Err`: how long to wait for the next.
    pub fn begin(&self, client: IpAddr) -> Result<(), Duration> {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if all.len() > KNOWN {
            all.retain(|_, (left, at)| gained(*left, now - *at) < f64::from(BURST));
        }
        let left = all.entry(client).or_insert((f64::from(BURST), now));
        *left = (gained(left.0, now - left.1), now);
        if left.0 < 1.0 {
            return Err(EVERY.mul_f64(1.0 - left.0));
        }
        left.0 -= 1.0;
        Ok(())
    }

    /// The attempt was a good one, and does not count.
    pub fn succeeded(&self, client: IpAddr) {
        if let Some(left) = self.left.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&client) {
            left.0 += 1.0;
        }
    }
}

fn gained(left: f64, after: Duration) -> f64 {
    (left + after.as_secs_f64() / EVERY.as_secs_f64()).min(f64::from(BURST))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[tokio::test(start_paused = true)]
    async fn only_failures_count_and_time_heals() {
        let attempts = Attempts::default();
        for _ in 0..100 {
            attempts.begin(ONE).unwrap();
            attempts.succeeded(ONE);
        }
        for _ in 0..BURST {
            attempts.begin(ONE).unwrap();
        }
        let wait = attempts.begin(ONE).unwrap_err();
        assert!(wait <= EVERY, "{wait:?}");
        tokio::time::advance(EVERY).await;
        attempts.begin(ONE).unwrap();
        assert!(attempts.begin(ONE).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_anothers_failures_and_old_ones_are_forgotten() {
        let attempts = Attempts::default();
        while attempts.begin(ONE).is_ok() {}
        for number in 0..5000_u32 {
            attempts.begin(IpAddr::V4(number.into())).unwrap();
        }
        assert!(attempts.begin(ONE).is_err());
        tokio::time::advance(EVERY * BURST).await;
        attempts.begin(ONE).unwrap();
        assert_eq!(attempts.left.lock().unwrap().len(), 1);
    }
}
