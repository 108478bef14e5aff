//! Lines of `scontrol --oneliner`: `Key=value` words.

/// The value of a key that holds no spaces.
pub fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}
