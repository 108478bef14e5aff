//! Which of two Debian versions is newer, as `dpkg --compare-versions` says.

use std::cmp::Ordering;

/// `[EPOCH:]UPSTREAM[-REVISION]`, compared part by part.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (parts(a), parts(b));
    a.0.cmp(&b.0).then_with(|| compare_part(a.1, b.1)).then_with(|| compare_part(a.2, b.2))
}

fn parts(version: &str) -> (u64, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    // No revision is as good as the revision 0.
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch.parse().unwrap_or(0), upstream, revision)
}

/// Stretches without digits and numbers, in turn.
fn compare_part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let (words_a, words_b) =
            (take(&mut a, |c| !c.is_ascii_digit()), take(&mut b, |c| !c.is_ascii_digit()));
        let order = compare_words(words_a, words_b);
        if order.is_ne() {
            return order;
        }
        let (number_a, number_b) =
            (take(&mut a, |c| c.is_ascii_digit()), take(&mut b, |c| c.is_ascii_digit()));
        let (number_a, number_b) = (number_a.trim_start_matches('0'), number_b.trim_start_matches('0'));
        // Of any length: some are dates with times.
        let order = number_a.len().cmp(&number_b.len()).then_with(|| number_a.cmp(number_b));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn take<'a>(text: &mut &'a str, belongs: impl Fn(char) -> bool) -> &'a str {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    let (taken, rest) = text.split_at(end);
    *text = rest;
    taken
}

/// A tilde is before the end, letters are before all other signs.
fn compare_words(a: &str, b: &str) -> Ordering {
    let rank = |sign: Option<char>| match sign {
        Some('~') => (0, 0),
        None => (1, 0),
        Some(c) if c.is_ascii_alphabetic() => (2, u32::from(c)),
        Some(c) => (3, u32::from(c)),
    };
    let (mut a, mut b) = (a.chars(), b.chars());
    loop {
        let (next_a, next_b) = (a.next(), b.next());
        let order = rank(next_a).cmp(&rank(next_b));
        if order.is_ne() || next_a.is_none() {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RISING: [&[&str]; 6] = [
        &["1.0~rc1-1", "1.0-1", "1.0-1+b1", "1.0-1+deb12u2", "1.0-1.1", "1.0a-1", "1.0+1-1", "1.0.1-1"],
        &["22.05.8-4+deb12u3", "24.11.5-4", "26.05.5-1", "1:0.1"],
        &["9", "10", "100"],
        &["1.2~~", "1.2~~a", "1.2~", "1.2", "1.2a"],
        &["20250419-1", "20250419203812-1"],
        &["6.1.0-9", "6.1.0-10", "6.1.129-1", "6.1.140-1"],
    ];

    #[test]
    fn versions_rise() {
        for rising in RISING {
            for (at, a) in rising.iter().enumerate() {
                for (other, b) in rising.iter().enumerate() {
                    assert_eq!(compare(a, b), at.cmp(&other), "{a} {b}");
                }
            }
        }
        assert_eq!(compare("1.0", "1.0-0"), Ordering::Equal);
        assert_eq!(compare("0:1.00", "1.0"), Ordering::Equal);
    }

    /// dpkg itself is asked.
    #[test]
    fn dpkg_agrees() {
        let is_older = |a: &str, b: &str| {
            let status = std::process::Command::new("dpkg").args(["--compare-versions", a, "lt", b]).status();
            status.expect("dpkg is installed").code().expect("it ends by itself") == 0
        };
        let all: Vec<&str> = RISING.into_iter().flatten().copied().collect();
        for pair in all.windows(2) {
            let older = is_older(pair[0], pair[1]);
            assert_eq!(compare(pair[0], pair[1]) == Ordering::Less, older, "{pair:?}");
        }
    }
}
