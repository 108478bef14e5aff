//! Small pieces of English for messages.

use crate::hostlist;

/// `a`, `b` or `c`, each in backticks.
pub(crate) fn or_list<S: AsRef<str>>(words: &[S]) -> String {
    join(&quote(words), "or")
}

pub(crate) fn and_list<S: AsRef<str>>(words: &[S]) -> String {
    join(&quote(words), "and")
}

/// The words as they are, with an "and" before the last.
pub(crate) fn and_join(words: &[String]) -> String {
    join(words, "and")
}

fn quote<S: AsRef<str>>(words: &[S]) -> Vec<String> {
    words.iter().map(|word| format!("`{}`", word.as_ref())).collect()
}

fn join(words: &[String], last: &str) -> String {
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((end, before)) => format!("{} {last} {end}", before.join(", ")),
    }
}

/// Node names as a hostlist that fits on a line.
pub(crate) fn node_list<S: AsRef<str>>(names: &[S]) -> String {
    const MAX: usize = 80;
    let mut names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    hostlist::sort(&mut names);
    names.dedup();
    let list = hostlist::fold(&names);
    if list.len() <= MAX {
        return list;
    }
    let some: Vec<&str> = names.iter().take(5).copied().collect();
    format!("{} and {} more", some.join(","), names.len() - some.len())
}
