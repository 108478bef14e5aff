//! Text from nodes, on its way to a terminal: control characters could move its cursor, change its title or worse.

use std::borrow::Cow;
use std::fmt::Write as _;

/// With every control character but line ends and tabs written out, such as `\x1b`.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_safe = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_safe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // As consoles end their lines.
            '\r' if rest.peek() == Some(&'\n') => {}
            c if is_safe(c) => safe.push(c),
            c => _ = write!(safe, "\\x{:02x}", u32::from(c)),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(harmless("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(harmless("\u{1b}]0;title\u{7}\u{9b}2J"), "\\x1b]0;title\\x07\\x9b2J");
        assert_eq!(harmless("one\r\ntwo\rthree"), "one\ntwo\\x0dthree");
    }
}
