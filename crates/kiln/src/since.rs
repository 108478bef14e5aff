//! `--since`: a time, or how long ago.

use anyhow::anyhow;
use jiff::Timestamp;

use crate::error::Advise as _;
use crate::exit::Exit;

pub fn since(text: &str) -> anyhow::Result<Timestamp> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = kiln_spec::duration(text).and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    ago.ok_or_else(|| anyhow!("--since takes a time or a duration, not {text:?}"))
        .exit(Exit::Usage)
        .hint("such as 2026-01-31T09:00:00Z, 90m or 1d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_duration() {
        assert_eq!(since("2026-01-31T09:00:00Z").ok(), "2026-01-31T09:00:00Z".parse().ok());
        let hour = std::time::Duration::from_secs(3600);
        let (before, time, after) = (Timestamp::now(), since("1h").unwrap(), Timestamp::now());
        assert!(before - hour <= time && time <= after - hour, "{time}");
        for wrong in ["", "yesterday", "-1h", "1"] {
            assert!(since(wrong).is_err(), "{wrong:?}");
        }
    }
}
