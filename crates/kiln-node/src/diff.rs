//! Unified diffs of text files, for reports.

use std::fmt::Write;

use similar::TextDiff;

const CONTEXT: usize = 2;
const MAX_LINES: usize = 200;
/// A longer diff is not useful and takes long to compute.
const MAX_BYTES: usize = 256 * 1024;

/// `None` when one side is not text or both are too long; the report's summary must do then.
pub(crate) fn unified(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Option<String> {
    let old = text(before.unwrap_or_default())?;
    let new = text(after.unwrap_or_default())?;
    let name = |content: Option<&[u8]>| if content.is_some() { path } else { "/dev/null" };
    let diff = TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(name(before), name(after))
        .to_string();
    Some(shorten(&diff))
}

fn text(content: &[u8]) -> Option<&str> {
    (content.len() <= MAX_BYTES && !content.contains(&0)).then(|| std::str::from_utf8(content).ok()).flatten()
}

fn shorten(diff: &str) -> String {
    let total = diff.lines().count();
    if total <= MAX_LINES {
        return diff.to_owned();
    }
    let mut short: String = diff.split_inclusive('\n').take(MAX_LINES).collect();
    let _ = writeln!(short, "... {} more lines", total - MAX_LINES);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_little_context() {
        let diff = unified("/etc/x", Some(b"1\n2\n3\n4\n5\n"), Some(b"1\n2\n3\n4\nfive\n")).unwrap();
        assert_eq!(diff, "--- /etc/x\n+++ /etc/x\n@@ -3,3 +3,3 @@\n 3\n 4\n-5\n+five\n");
    }

    #[test]
    fn new_files_come_from_nowhere() {
        let diff = unified("/etc/x", None, Some(b"a\n")).unwrap();
        assert!(diff.starts_with("--- /dev/null\n+++ /etc/x\n"), "{diff}");
    }

    #[test]
    fn bytes_have_no_diff_and_long_ones_are_cut() {
        assert_eq!(unified("/x", Some(b"\xff\x00"), Some(b"a")), None);
        let long = "line\n".repeat(1000);
        let diff = unified("/x", None, Some(long.as_bytes())).unwrap();
        assert!(diff.ends_with("more lines\n") && diff.lines().count() == MAX_LINES + 1);
    }
}
