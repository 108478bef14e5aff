//! Sizes, durations and Slurm's times, as people write them.

use std::time::Duration;

/// `20 GiB`, `1TiB` to whole GiB. The error says what was expected.
pub(crate) fn size_gib(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "a size in GiB or TiB, e.g. \"20 GiB\"";
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "GiB" => 1,
        "TiB" => 1024,
        "GB" | "G" | "gb" | "gib" | "TB" | "T" => {
            return Err(format!("{EXPECTED} (with the unit spelt `GiB` or `TiB`)"));
        }
        _ => return Err(EXPECTED.to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| EXPECTED.to_owned())?;
    match number.checked_mul(factor) {
        Some(size @ 1..=1_048_576) => Ok(size),
        _ => Err("a size from 1 GiB to 1024 TiB".to_owned()),
    }
}

/// `30m`, `1h30m`, `90s`, `1d`.
pub fn duration(text: &str) -> Option<Duration> {
    let mut seconds: u64 = 0;
    let mut rest = text;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let mut after = rest[digits..].chars();
        let unit = match after.next()? {
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        // Large units first, each once: `5m1h` is more likely a mistake than meant.
        if unit >= last_unit {
            return None;
        }
        last_unit = unit;
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = after.as_str();
    }
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Whether Slurm takes the text as a time limit: `90`, `90:00`, `24:00:00`, `1-0`, `1-00:00:00`, `UNLIMITED`.
pub(crate) fn is_slurm_time(text: &str) -> bool {
    if text.eq_ignore_ascii_case("unlimited") || text.eq_ignore_ascii_case("infinite") {
        return true;
    }
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, text),
    };
    let fields: Vec<&str> = clock.split(':').collect();
    let number = |text: &str| !text.is_empty() && text.len() <= 8 && text.bytes().all(|b| b.is_ascii_digit());
    days.is_none_or(number) && fields.len() <= 3 && fields.iter().all(|field| number(field))
}

#[cfg(test)]
mod tests {
    use super::{duration, is_slurm_time, size_gib};

    #[test]
    fn sizes() {
        assert_eq!(size_gib("20 GiB"), Ok(20));
        assert_eq!(size_gib("2TiB"), Ok(2048));
        for wrong in ["20", "20 GB", "-1 GiB", "0 GiB", "GiB", "1.5 GiB", "99999999999999999999 GiB"] {
            assert!(size_gib(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("30m").map(|d| d.as_secs()), Some(1800));
        assert_eq!(duration("1h30m").map(|d| d.as_secs()), Some(5400));
        for wrong in ["", "30", "m", "30m1h", "1h 30m", "0m", "-5m", "30 minutes", "é"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn slurm_times() {
        for right in ["30", "30:00", "24:00:00", "1-0", "1-12:30", "7-00:00:00", "UNLIMITED", "infinite"] {
            assert!(is_slurm_time(right), "{right}");
        }
        for wrong in ["", "1d", "1-", "-1", "1:2:3:4", "1-2-3", "30m", "1 day"] {
            assert!(!is_slurm_time(wrong), "{wrong}");
        }
    }
}
