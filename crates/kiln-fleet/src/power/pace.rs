//! How often requests are planned for: new ones at once, those under way at intervals.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

/// Between two rounds while requests are under way.
const EVERY: Duration = Duration::from_millis(500);

pub struct Pace {
    /// All that were open in the last round, also those that were not due.
    known: HashSet<i64>,
    next: Instant,
}

impl Pace {
    pub fn new() -> Self {
        Pace { known: HashSet::new(), next: Instant::now() }
    }

    /// Whether a round is due, with these requests open.
    pub fn is_time(&mut self, open: impl Iterator<Item = i64>, now: Instant) -> bool {
        let open: HashSet<i64> = open.collect();
        let new = !open.is_subset(&self.known);
        if open.is_empty() || (!new && now < self.next) {
            return false;
        }
        self.known = open;
        self.next = now + EVERY;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_request_starts_one_round_at_once() {
        let start = Instant::now();
        let mut pace = Pace::new();
        let mut is_time =
            |open: &[i64], millis| pace.is_time(open.iter().copied(), start + Duration::from_millis(millis));
        assert!(!is_time(&[], 0));
        assert!(is_time(&[1], 10));
        assert!(!is_time(&[1], 20));
        // Whether it is due, busy or postponed: it is new once.
        assert!(is_time(&[1, 2], 30));
        assert!(!is_time(&[1, 2], 40));
        assert!(!is_time(&[2], 50));
        assert!(is_time(&[1, 2], 530) && !is_time(&[1, 2], 540));
    }
}
