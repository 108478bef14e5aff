//! Names to a hostlist.

use std::fmt::Write as _;

use super::order::split_number;

/// More digits than this do not fit the number of a range; Slurm mangles them, we keep the name whole.
const MAX_DIGITS: usize = 19;

/// A run of consecutive numbers behind one prefix, or a single name without a number.
struct Run<'a> {
    prefix: &'a str,
    numbers: Option<Numbers<'a>>,
}

struct Numbers<'a> {
    /// As written, which fixes the padding of the whole run.
    first: &'a str,
    low: u64,
    high: u64,
}

/// Folds names into a hostlist, the way Slurm prints it. The order is kept; sort first if it does not
/// matter, for a shorter list.
pub fn fold<I>(names: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let names: Vec<I::Item> = names.into_iter().collect();
    let mut runs: Vec<Run<'_>> = Vec::new();
    for name in &names {
        let name = name.as_ref();
        if !runs.last_mut().is_some_and(|last| last.take_next(name)) {
            runs.push(Run::new(name));
        }
    }
    let mut list = String::new();
    for group in runs.chunk_by(|a, b| a.numbers.is_some() && b.numbers.is_some() && a.prefix == b.prefix) {
        write_group(&mut list, group);
    }
    list
}

impl<'a> Run<'a> {
    fn new(name: &'a str) -> Self {
        let (prefix, number) = split_number(name);
        match parse(number) {
            Some(low) => Run { prefix, numbers: Some(Numbers { first: number, low, high: low }) },
            None => Run { prefix: name, numbers: None },
        }
    }

    /// Takes the name in if it is the next one of this run.
    fn take_next(&mut self, name: &str) -> bool {
        let Some(numbers) = &mut self.numbers else {
            return false;
        };
        let (prefix, written) = split_number(name);
        if prefix != self.prefix || parse(written) != numbers.high.checked_add(1) {
            return false;
        }
        // The run prints every number with the width of its first: take only what that gives back.
        let digits = written.trim_start_matches('0').len();
        if digits.max(numbers.first.len()) != written.len() {
            return false;
        }
        numbers.high += 1;
        true
    }
}

impl Numbers<'_> {
    fn write(&self, list: &mut String) {
        list.push_str(self.first);
        if self.high > self.low {
            // Writing to a String cannot fail.
            let _ = write!(list, "-{:0width$}", self.high, width = self.first.len());
        }
    }
}

fn parse(number: &str) -> Option<u64> {
    if number.is_empty() || number.len() > MAX_DIGITS { None } else { number.parse().ok() }
}

fn write_group(list: &mut String, group: &[Run<'_>]) {
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(group[0].prefix);
    let brackets = group.len() > 1 || group[0].numbers.as_ref().is_some_and(|n| n.high > n.low);
    if brackets {
        list.push('[');
    }
    for (i, numbers) in group.iter().filter_map(|run| run.numbers.as_ref()).enumerate() {
        if i > 0 {
            list.push(',');
        }
        numbers.write(list);
    }
    if brackets {
        list.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn folds_like_slurm() {
        for (names, list) in [
            (&["n1", "n2", "n3", "n5", "login-0"][..], "n[1-3,5],login-0"),
            (&["n001", "n002", "n003"], "n[001-003]"),
            (&["n09", "n10", "n11"], "n[09-11]"),
            (&["n9", "n10"], "n[9-10]"),
            (&["n9", "n10", "n011"], "n[9-10,011]"),
            (&["n0", "n00"], "n[0,00]"),
            (&["n3", "n2", "n1"], "n[3,2,1]"),
            (&["n1", "x", "n2"], "n1,x,n2"),
            (&["a1b1", "a1b2", "a2b1"], "a1b[1-2],a2b1"),
            (&["a", "a"], "a,a"),
            (&["1", "2"], "[1-2]"),
            (&[], ""),
        ] {
            assert_eq!(fold(names), list);
        }
    }
}
