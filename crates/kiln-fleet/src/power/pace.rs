//! How often requests are looked at: new ones at once, those that are under way now and then.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

/// While something is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub struct Pace {
    /// All that were open at the last look, also those that were not due.
    known: HashSet<i64>,
    next: Instant,
}

impl Pace {
    pub fn new() -> Self {
        Pace { known: HashSet::new(), next: Instant::now() }
    }

    /// Whether to look now, with these requests open.
    pub fn is_time(&mut self, open: impl Iterator<Item = i64>, now: Instant) -> bool {
        let open: HashSet<i64> = open.collect();
        let new = !open.is_subset(&self.known);
        if open.is_empty() || (!new && now < self.next) {
            return false;
        }
        self.known = open;
        self.next = now + LOOK_EVERY;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_request_is_looked_at_once_without_delay() {
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
