//! How often this process has asked a cloud, and how long the answers took.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The calls of one name with one outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    pub count: u64,
    pub time: Duration,
}

static CALLS: Mutex<BTreeMap<(&'static str, bool), Calls>> = Mutex::new(BTreeMap::new());

/// By name, and whether they failed, since the process began.
pub fn calls() -> BTreeMap<(&'static str, bool), Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn note(call: &'static str, failed: bool, time: Duration) {
    let mut all = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let calls = all.entry((call, failed)).or_default();
    calls.count += 1;
    calls.time += time;
}

/// An answer of a cloud.
pub(crate) trait Answer {
    fn is_failed(&self) -> bool;
}

impl<T, E> Answer for Result<T, E> {
    fn is_failed(&self) -> bool {
        self.is_err()
    }
}

impl<T, E> Answer for Vec<Result<T, E>> {
    fn is_failed(&self) -> bool {
        self.iter().any(Result::is_err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_outcome() {
        for (failed, seconds) in [(false, 1), (false, 2), (true, 4)] {
            note("a call of this test", failed, Duration::from_secs(seconds));
        }
        let all = calls();
        let of = |failed| all[&("a call of this test", failed)];
        assert_eq!(of(false), Calls { count: 2, time: Duration::from_secs(3) });
        assert_eq!(of(true), Calls { count: 1, time: Duration::from_secs(4) });
        assert!(vec![Ok::<(), ()>(()), Err(())].is_failed() && !Ok::<(), ()>(()).is_failed());
    }
}
