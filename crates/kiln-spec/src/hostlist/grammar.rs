//! What a hostlist may look like, and where one goes wrong.

use std::ops::Range;

/// Slurm's own limit for one range.
pub const MAX_RANGE: u64 = 65_536;
/// More digits do not fit the number Slurm keeps.
const MAX_DIGITS: usize = 18;

/// Where and why a hostlist is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at character {}): expected {expected}", span.start + 1)]
pub struct HostlistError {
    /// Bytes of the list that are wrong.
    pub span: Range<usize>,
    pub message: String,
    /// What would have been right there.
    pub expected: String,
}

impl HostlistError {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>, expected: impl Into<String>) -> Self {
        HostlistError { span, message: message.into(), expected: expected.into() }
    }
}

/// One item of the list, e.g. `rack[1-2]n[01-16]`: text and brackets by turns.
#[derive(Default)]
pub(super) struct Item<'a> {
    /// `texts[i]` stands before `brackets[i]`; without brackets there is one text.
    pub texts: Vec<&'a str>,
    pub brackets: Vec<Vec<Numbers>>,
}

pub(super) struct Numbers {
    pub low: u64,
    pub high: u64,
    pub width: usize,
}

impl Numbers {
    pub fn count(&self) -> u64 {
        self.high - self.low + 1
    }
}

/// Where the item ends: at the next comma outside brackets, or with the list.
pub(super) fn item_end(list: &str, start: usize) -> usize {
    let mut in_bracket = false;
    for (i, byte) in list.bytes().enumerate().skip(start) {
        match byte {
            b'[' => in_bracket = true,
            b']' => in_bracket = false,
            b',' if !in_bracket => return i,
            _ => {}
        }
    }
    list.len()
}

pub(super) fn parse_item(list: &str, span: Range<usize>) -> Result<Item<'_>, HostlistError> {
    let text = &list[span.clone()];
    if text.is_empty() {
        let at = if span.end < list.len() { span.start..span.end + 1 } else { span };
        let what =
            if list.is_empty() { "the hostlist is empty" } else { "there is no name between the commas" };
        return Err(HostlistError::new(at, what, "a host name"));
    }
    let mut item = Item::default();
    let mut at = span.start;
    loop {
        let rest = &list[at..span.end];
        let literal = &rest[..rest.find(['[', ']']).unwrap_or(rest.len())];
        check_characters(literal, at)?;
        let open = at + literal.len();
        match list[open..span.end].chars().next() {
            None if item.brackets.is_empty() => {
                item.texts.push(literal);
                return Ok(item);
            }
            None if literal.is_empty() => return Ok(item),
            None => {
                return Err(HostlistError::new(
                    at..span.end,
                    format!("Slurm before 23.11 does not accept `{literal}` after the last bracket"),
                    "`]` at the end of the name",
                ));
            }
            Some(']') => {
                return Err(HostlistError::new(open..open + 1, "`]` without `[`", "`[` before it"));
            }
            Some(_) => {}
        }
        let inner = open + 1;
        let Some(length) = list[inner..span.end].find(']') else {
            return Err(HostlistError::new(open..span.end, "the bracket is not closed", "`]`"));
        };
        item.texts.push(literal);
        item.brackets.push(parse_bracket(list, inner..inner + length)?);
        at = inner + length + 1;
    }
}

fn check_characters(text: &str, at: usize) -> Result<(), HostlistError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match text.char_indices().find(|(_, c)| !allowed(*c)) {
        None => Ok(()),
        Some((i, c)) => Err(HostlistError::new(
            at + i..at + i + c.len_utf8(),
            format!("{} is not allowed in a host name", shown(c)),
            if c.is_whitespace() {
                "a comma between names, no spaces"
            } else {
                "letters, digits, `-`, `.` or `_`"
            },
        )),
    }
}

fn shown(c: char) -> String {
    match c {
        ' ' => "a space".to_owned(),
        c if c.is_control() => format!("a control character (U+{:04X})", u32::from(c)),
        c => format!("`{c}`"),
    }
}

fn parse_bracket(list: &str, span: Range<usize>) -> Result<Vec<Numbers>, HostlistError> {
    let inner = &list[span.clone()];
    if inner.is_empty() {
        return Err(HostlistError::new(
            span.start - 1..span.end + 1,
            "the brackets are empty",
            "a number or a range, as in `[1-4,7]`",
        ));
    }
    if let Some(i) = inner.find('[') {
        let at = span.start + i;
        return Err(HostlistError::new(at..at + 1, "brackets cannot be nested", "`]` before the next `[`"));
    }
    let mut ranges = Vec::new();
    let mut at = span.start;
    for part in inner.split(',') {
        ranges.push(parse_range(part, at)?);
        at += part.len() + 1;
    }
    Ok(ranges)
}

fn parse_range(part: &str, at: usize) -> Result<Numbers, HostlistError> {
    let span = at..at + part.len();
    if part.is_empty() {
        return Err(HostlistError::new(
            at..at + 1,
            "a number is missing in the brackets",
            "a number or a range",
        ));
    }
    if let Some(i) = part.find([':', '/']) {
        return Err(HostlistError::new(
            at + i..span.end,
            "Slurm's ranges have no step",
            "`LOW-HIGH`, or the numbers one by one",
        ));
    }
    if let Some((i, c)) = part.char_indices().find(|(_, c)| !c.is_ascii_digit() && *c != '-') {
        return Err(HostlistError::new(
            at + i..at + i + c.len_utf8(),
            format!("{} is not allowed inside brackets", shown(c)),
            "digits, `-` and `,`",
        ));
    }
    let (low_text, high_text) = part.split_once('-').unwrap_or((part, part));
    if let Some(i) = high_text.find('-') {
        let from = span.end - high_text.len() + i;
        return Err(HostlistError::new(from..span.end, "a range has two ends", "`LOW-HIGH`"));
    }
    if low_text.is_empty() || high_text.is_empty() {
        return Err(HostlistError::new(span, format!("the range `{part}` has only one end"), "`LOW-HIGH`"));
    }
    let low = number(low_text, at)?;
    let high = number(high_text, span.end - high_text.len())?;
    if low > high {
        let expected = format!("the smaller number first: `{high_text}-{low_text}`");
        return Err(HostlistError::new(span, format!("the range `{part}` runs backwards"), expected));
    }
    if high - low >= MAX_RANGE {
        let message = format!("the range `{part}` has {} hosts", high - low + 1);
        return Err(HostlistError::new(
            span,
            message,
            format!("at most {MAX_RANGE} hosts, which is Slurm's limit"),
        ));
    }
    Ok(Numbers { low, high, width: low_text.len() })
}

fn number(text: &str, at: usize) -> Result<u64, HostlistError> {
    let error = || {
        HostlistError::new(
            at..at + text.len(),
            "the number is too long",
            format!("at most {MAX_DIGITS} digits"),
        )
    };
    if text.len() > MAX_DIGITS { Err(error()) } else { text.parse().map_err(|_| error()) }
}
