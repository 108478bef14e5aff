//! The order a person expects, and `scontrol show hostlistsorted` gives: `n2` before `n10`.

use std::cmp::Ordering;

/// Splits a name into its prefix and the digits at its end, the way Slurm does.
pub(super) fn split_number(name: &str) -> (&str, &str) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.split_at(prefix.len())
}

/// Natural order. Names of one prefix stay together: `n1`, `n2`, `n-1`, not `n1`, `n-1`, `n2`.
pub fn natural_cmp(a: &str, b: &str) -> Ordering {
    let (a_prefix, a_number) = split_number(a);
    let (b_prefix, b_number) = split_number(b);
    cmp_mixed(a_prefix, b_prefix).then_with(|| cmp_number(a_number, b_number)).then_with(|| a.cmp(b))
}

/// Sorts names in natural order.
pub fn sort<S: AsRef<str>>(names: &mut [S]) {
    names.sort_by(|a, b| natural_cmp(a.as_ref(), b.as_ref()));
}

/// Compares text in which runs of digits count as numbers.
fn cmp_mixed(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let (a_digits, b_digits) = (leading_digits(a), leading_digits(b));
        if a_digits > 0 && b_digits > 0 {
            let (a_run, a_rest) = a.split_at(a_digits);
            let (b_run, b_rest) = b.split_at(b_digits);
            match cmp_number(a_run, b_run) {
                Ordering::Equal => (a, b) = (a_rest, b_rest),
                unequal => return unequal,
            }
            continue;
        }
        let (mut a_chars, mut b_chars) = (a.chars(), b.chars());
        match (a_chars.next(), b_chars.next()) {
            (Some(x), Some(y)) if x == y => (a, b) = (a_chars.as_str(), b_chars.as_str()),
            (x, y) => return x.cmp(&y),
        }
    }
}

fn leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Compares runs of digits by value, of any length; with equal values the less padded one is first.
fn cmp_number(a: &str, b: &str) -> Ordering {
    let (a_value, b_value) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    (a_value.len().cmp(&b_value.len())).then_with(|| a_value.cmp(b_value)).then_with(|| a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = vec!["n10", "n9", "n-1", "login-0", "n", "n09", "a10b1", "a2b1"];
        sort(&mut names);
        assert_eq!(names, ["a2b1", "a10b1", "login-0", "n", "n9", "n09", "n10", "n-1"]);
    }
}
