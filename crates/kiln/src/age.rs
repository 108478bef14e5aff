//! Short forms of how long ago and how soon.

use jiff::Timestamp;

/// `40 s`, `3 min`, `2 h`, `5 d`.
pub fn between(earlier: Timestamp, later: Timestamp) -> String {
    let seconds = later.duration_since(earlier).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

/// `now`, or `in 40 s`.
pub fn until(due: Timestamp, now: Timestamp) -> String {
    if due <= now { "now".into() } else { format!("in {}", between(now, due)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_fits_the_number() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let texts: Vec<_> = [-5, 0, 119, 120, 7199, 7200, 200_000].map(|n| between(at(0), at(n))).into();
        assert_eq!(texts, ["0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "2 d"]);
        assert_eq!(until(at(5), at(5)), "now");
        assert_eq!(until(at(50), at(5)), "in 45 s");
    }
}
