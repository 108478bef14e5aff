//! How long to wait before another attempt.

use std::time::Duration;

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
    fn delays_differ_and_are_never_shorter_than_asked() {
        let delay = |asked: Option<u64>, random| {
            spread(Duration::from_secs(8), asked.map(Duration::from_secs), random).as_secs()
        };
        assert_eq!([0.0, 1.0].map(|random| delay(None, random)), [4, 8]);
        assert_eq!([0.0, 1.0].map(|random| delay(Some(60), random)), [60, 75]);
    }
}
