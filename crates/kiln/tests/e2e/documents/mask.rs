//! Compares lines without what differs from run to run: times, ids, addresses, names of built images, numbers of jobs and
//! of changes, widths of columns.

use std::net::Ipv4Addr;

/// Whether the output is what the page shows, in which a line `...` stands for any lines.
pub fn matches(shown: &str, printed: &str, in_any_order: bool) -> bool {
    let (mut shown, mut printed) = (masked(shown), masked(printed));
    if in_any_order {
        shown.sort_unstable();
        printed.sort_unstable();
    }
    let chunks: Vec<&[String]> = shown.split(|line| line == "...").collect();
    let Some((last, others)) = chunks.split_last() else {
        return printed.is_empty();
    };
    let mut rest = printed.as_slice();
    for (i, chunk) in others.iter().enumerate() {
        let at = rest.windows(chunk.len().max(1)).position(|lines| chunk.is_empty() || lines == *chunk);
        match at {
            Some(at) if i > 0 || at == 0 => rest = &rest[at + chunk.len()..],
            None if chunk.is_empty() => {}
            _ => return false,
        }
    }
    if others.is_empty() { rest == *last } else { rest.ends_with(last) }
}

/// Lines that are there or not: whether an image is built depends on what was run before.
const OPTIONAL: &[&str] = &["+ image default: build"];

fn masked(text: &str) -> Vec<String> {
    let lines = text.lines().map(line).filter(|line| !line.is_empty());
    lines.filter(|line| !OPTIONAL.contains(&line.as_str())).collect()
}

fn line(line: &str) -> String {
    let line = match line.split_once("s] ") {
        Some((time, rest)) if is_seconds(time) => format!("[TIME] {rest}"),
        _ => line.to_owned(),
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let masked = words.iter().enumerate().map(|(i, word)| {
        let before = if i > 0 { words[i - 1] } else { "" };
        let after = words.get(i + 1).copied().unwrap_or_default();
        let core = word.trim_matches(|c: char| "[](),;:\"".contains(c));
        match mask(core, before, after) {
            Some(mask) => word.replace(core, mask),
            None => (*word).to_owned(),
        }
    });
    masked.collect::<Vec<String>>().join(" ")
}

/// `[ 12.3`
fn is_seconds(text: &str) -> bool {
    text.strip_prefix('[').is_some_and(|number| number.trim().parse::<f64>().is_ok())
}

fn mask<'w>(word: &'w str, before: &str, after: &str) -> Option<&'w str> {
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let unit = after.trim_matches(|c: char| !c.is_alphabetic());
    if let Some(name) = image(word) {
        return Some(name);
    }
    if word.parse::<Ipv4Addr>().is_ok() {
        return Some("ADDRESS");
    }
    if is_id(word) {
        return Some("ID");
    }
    if is_time(word) {
        return Some("TIME");
    }
    if is_version(word) {
        return Some("VERSION");
    }
    // How many nodes are well depends on how many elastic ones are up.
    (is_number && (["s", "min", "MiB", "changed"].contains(&unit) || ["job", "well"].contains(&before)))
        .then_some("N")
}

/// `default` of `default-3ae252f9-20261115T040112`, so that it is the same as an image that is yet to be built.
fn image(word: &str) -> Option<&str> {
    let (rest, time) = word.rsplit_once('-')?;
    let (name, digest) = rest.rsplit_once('-')?;
    let is_time = time.len() == 15 && time.bytes().all(|b| b.is_ascii_digit() || b == b'T');
    (is_time && digest.len() == 8 && digest.bytes().all(|b| b.is_ascii_hexdigit())).then_some(name)
}

fn is_id(word: &str) -> bool {
    word.len() == 36
        && word.bytes().filter(|b| *b == b'-').count() == 4
        && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// A date, a time of day, a duration as Slurm writes it.
fn is_time(word: &str) -> bool {
    let only =
        |extra: u8| word.len() >= 4 && word.bytes().all(|b| b.is_ascii_digit() || b == extra || b == b'-');
    let count = |c| word.bytes().filter(|b| *b == c).count();
    (only(b':') && count(b':') >= 1) || (only(b'-') && word.len() == 10 && count(b'-') == 2)
}

/// `22.05.8`
fn is_version(word: &str) -> bool {
    word.split('.').count() == 3 && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}
