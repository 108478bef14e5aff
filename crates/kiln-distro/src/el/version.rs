//! The order of versions, as rpm has it: `[EPOCH:]VERSION-RELEASE`.

use std::cmp::Ordering;

pub fn compare(a: &str, b: &str) -> Ordering {
    let (epoch_a, version_a, release_a) = parts(a);
    let (epoch_b, version_b, release_b) = parts(b);
    epoch_a.cmp(&epoch_b).then_with(|| piece(version_a, version_b)).then_with(|| piece(release_a, release_b))
}

/// Epoch, version, release.
fn parts(text: &str) -> (u64, &str, &str) {
    let (epoch, rest) = text.split_once(':').unwrap_or(("0", text));
    let (version, release) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch.parse().unwrap_or(0), version, release)
}

/// Runs of digits and runs of letters are compared one by one; all else only parts them, but `~`, which comes before
/// everything, and `^`, which comes after the end and before everything else.
fn piece(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let parts_only = |c: char| !c.is_ascii_alphanumeric() && c != '~' && c != '^';
        (a, b) = (a.trim_start_matches(parts_only), b.trim_start_matches(parts_only));
        match (a.starts_with('~'), b.starts_with('~')) {
            (true, true) => {
                (a, b) = (&a[1..], &b[1..]);
                continue;
            }
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        match (a.starts_with('^'), b.starts_with('^')) {
            (true, true) => {
                (a, b) = (&a[1..], &b[1..]);
                continue;
            }
            (true, false) => return if b.is_empty() { Ordering::Greater } else { Ordering::Less },
            (false, true) => return if a.is_empty() { Ordering::Less } else { Ordering::Greater },
            (false, false) => {}
        }
        if a.is_empty() || b.is_empty() {
            return a.len().cmp(&b.len());
        }
        let digits = a.starts_with(|c: char| c.is_ascii_digit());
        let ((one, rest_a), (two, rest_b)) = (run(a, digits), run(b, digits));
        // A number is newer than letters.
        if two.is_empty() {
            return if digits { Ordering::Greater } else { Ordering::Less };
        }
        let order = if digits {
            let (one, two) = (one.trim_start_matches('0'), two.trim_start_matches('0'));
            one.len().cmp(&two.len()).then_with(|| one.cmp(two))
        } else {
            one.cmp(two)
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// The digits, or the letters, that a text begins with, and what is behind them.
fn run(text: &str, digits: bool) -> (&str, &str) {
    let belongs = |c: char| if digits { c.is_ascii_digit() } else { c.is_ascii_alphabetic() };
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_order_of_rpm() {
        // Each older than the next.
        let ordered = [
            ("1.0~rc1-1", "1.0-1"),
            ("1.0-1", "1.0^git1-1"),
            ("1.0^git1-1", "1.0.1-1"),
            ("1.0~rc1^git1-1", "1.0~rc2-1"),
            ("22.05.9-1.el9", "22.05.10-1.el9"),
            ("22.05.9-1.el9", "22.05.9-1.el9_4"),
            ("5.14.0-427.el9", "5.14.0-503.11.1.el9_5"),
            ("9-1", "1:1-1"),
            ("1.a-1", "1.1-1"),
            ("1.0-1", "1.0a-1"),
            ("2.0a-1", "2.0b-1"),
            ("20200101-1", "20200102-1"),
        ];
        for (older, newer) in ordered {
            assert_eq!(compare(older, newer), Ordering::Less, "{older} {newer}");
            assert_eq!(compare(newer, older), Ordering::Greater, "{newer} {older}");
        }
        for (one, same) in [("1.05-1", "1.5-1"), ("0:1-1", "1-1"), ("1_0-1", "1.0-1"), ("2..0-1", "2.0-1")] {
            assert_eq!(compare(one, same), Ordering::Equal, "{one} {same}");
        }
    }

    /// rpm itself is asked.
    #[test]
    fn rpm_agrees() {
        let pieces = ["1", "01", "1.0", "1a", "a", "a1", "1.0~", "1.0~rc1", "1.0^", "1.0^a", "1.0.1", "1.0a"];
        let pairs: Vec<(&str, &str)> =
            pieces.iter().flat_map(|a| pieces.iter().map(move |b| (*a, *b))).collect();
        let calls: Vec<String> =
            pairs.iter().map(|(a, b)| format!("print(rpm.vercmp('{a}','{b}')..' ')")).collect();
        let calls = calls.concat();
        let asked = std::process::Command::new("rpm").args(["--eval", &format!("%{{lua:{calls}}}")]).output();
        let answers = String::from_utf8(asked.expect("rpm is installed").stdout).unwrap();
        let answers: Vec<i32> = answers.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert_eq!(answers.len(), pairs.len());
        for ((a, b), answer) in pairs.into_iter().zip(answers) {
            assert_eq!(piece(a, b) as i32, answer, "{a} {b}");
        }
    }
}
