//! Sizes, spans and lists of resources, as Slurm's commands print them.

/// Bytes of `512K`, `4000M`, `1.50G`; a number without a letter is `plain` bytes each.
pub(crate) fn bytes(text: &str, plain: u64) -> Option<u64> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        (at, 'T') => (&text[..at], 1 << 40),
        (at, 'P') => (&text[..at], 1 << 50),
        _ => (text, plain),
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a size is positive, and has less than sixteen digits"
    )]
    digits.parse::<f64>().ok().filter(|number| *number >= 0.0).map(|number| (number * factor as f64) as u64)
}

/// Milliseconds of `MM:SS.mmm`, `HH:MM:SS` and `D-HH:MM:SS`.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.trim().split_once('-') {
        Some((days, rest)) => (days.parse::<u64>().ok()?, rest),
        None => (0, text.trim()),
    };
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let mut seconds = 0_u64;
    let mut parts = 0;
    for part in whole.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
        parts += 1;
    }
    if !(2..=3).contains(&parts) {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    days.checked_mul(86_400)?.checked_add(seconds)?.checked_mul(1000)?.checked_add(thousandths)
}

/// The value of one resource in `cpu=4,mem=4000M,gres/gpu=2`.
pub(crate) fn resource<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    list.split(',').find_map(|entry| entry.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Numbers of a list such as `0-3,7`, at most `most` of them; `None` where it is not one.
pub(crate) fn numbers(list: &str, most: usize) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        all.extend((first..=last).take(most.saturating_sub(all.len())));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let rows = [
            ("512K", Some(512 << 10)),
            ("4000M", Some(4000 << 20)),
            ("1.50G", Some(3 << 29)),
            ("2T", Some(2 << 40)),
            ("7", Some(7 << 20)),
            ("0", Some(0)),
            ("", None),
            ("-1M", None),
            ("much", None),
        ];
        for (text, expected) in rows {
            assert_eq!(bytes(text, 1 << 20), expected, "{text}");
        }
    }

    #[test]
    fn spans_are_read() {
        let rows = [
            ("00:00.123", Some(123)),
            ("00:01.5", Some(1500)),
            ("01:02:03", Some(3_723_000)),
            ("1-00:00:01", Some(86_401_000)),
            ("", None),
            ("7", None),
            ("UNLIMITED", None),
            ("INVALID", None),
        ];
        for (text, expected) in rows {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn lists_are_read() {
        let list = "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=4000M";
        assert_eq!(resource(list, "mem"), Some("4000M"));
        assert_eq!(resource(list, "gres/gpu"), Some("2"));
        assert_eq!(resource(list, "node"), None);
        assert_eq!(numbers("0-3,7", 10), Some(vec![0, 1, 2, 3, 7]));
        assert_eq!(numbers("0-4000000000", 3), Some(vec![0, 1, 2]));
        assert_eq!(numbers("", 3), Some(Vec::new()));
        assert_eq!(numbers("a", 3), None);
    }
}
