//! Image properties of any length: Glance keeps a value of less than 64 KiB, so a longer one is kept in parts, `NAME`,
//! `NAME.2`, `NAME.3` and so on.

use std::collections::BTreeMap;

/// In bytes.
const LONGEST: usize = 60_000;

pub fn split<'v>(name: &str, value: &'v str) -> Vec<(String, &'v str)> {
    let mut parts = Vec::new();
    let mut rest = value;
    loop {
        let mut end = rest.len().min(LONGEST);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, more) = rest.split_at(end);
        let number = parts.len() + 1;
        parts.push((if number == 1 { name.to_string() } else { format!("{name}.{number}") }, part));
        if more.is_empty() {
            return parts;
        }
        rest = more;
    }
}

pub fn join(all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (further, mut joined): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(name, _)| is_further(name));
    for (name, value) in &mut joined {
        let parts = (2..).map_while(|number| further.get(&format!("{name}.{number}")));
        parts.for_each(|part| value.push_str(part));
    }
    joined
}

/// A part other than the first.
pub fn is_further(name: &str) -> bool {
    name.starts_with("kiln_")
        && name.rsplit_once('.').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_comes_back_whole() {
        for length in [0, 1, LONGEST, LONGEST + 1, 3 * LONGEST + 7] {
            // Two bytes each, so that a part could end in the middle of one.
            let value = "\u{e4}".repeat(length);
            let parts = split("kiln_manifest", &value);
            assert!(parts.iter().all(|(_, part)| part.len() <= LONGEST));
            assert_eq!(parts[0].0, "kiln_manifest");
            let kept = parts.into_iter().map(|(name, part)| (name, part.to_string())).collect();
            assert_eq!(join(kept), BTreeMap::from([("kiln_manifest".to_string(), value)]));
        }
    }
}
