//! A hostlist to names.

use std::ops::Range;

/// Slurm's own limit for one range.
pub const MAX_RANGE: u64 = 65_536;
/// A whole list may hold several ranges, but a typing error must not fill the memory.
pub const MAX_HOSTS: u64 = 1 << 20;
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
    fn new(span: Range<usize>, message: impl Into<String>, expected: impl Into<String>) -> Self {
        HostlistError {
            span,
            message: message.into(),
            expected: expected.into(),
        }
    }
}

/// One item of the list, e.g. `rack[1-2]n[01-16]`: text and brackets by turns.
#[derive(Default)]
struct Item<'a> {
    /// `texts[i]` stands before `brackets[i]`; without brackets there is one text.
    texts: Vec<&'a str>,
    brackets: Vec<Vec<Numbers>>,
}

struct Numbers {
    low: u64,
    high: u64,
    width: usize,
}

impl Numbers {
    fn count(&self) -> u64 {
        self.high - self.low + 1
    }
}

/// The names a hostlist stands for, in Slurm's order, duplicates kept.
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    let mut total = 0;
    let mut start = 0;
    loop {
        let end = item_end(list, start);
        let item = parse_item(list, start..end)?;
        total += item.count();
        if total > MAX_HOSTS {
            return Err(HostlistError::new(
                start..end,
                format!("the list has more than {MAX_HOSTS} hosts"),
                "a shorter list",
            ));
        }
        item.expand_into(&mut names);
        if end == list.len() {
            return Ok(names);
        }
        start = end + 1;
    }
}

/// Where the item ends: at the next comma outside brackets, or with the list.
fn item_end(list: &str, start: usize) -> usize {
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

fn parse_item(list: &str, span: Range<usize>) -> Result<Item<'_>, HostlistError> {
    let text = &list[span.clone()];
    if text.is_empty() {
        let at = if span.end < list.len() {
            span.start..span.end + 1
        } else {
            span
        };
        let what = if list.is_empty() {
            "the hostlist is empty"
        } else {
            "there is no name between the commas"
        };
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
                    format!(
                        "`{literal}` follows the last bracket, which Slurm refuses before 23.11"
                    ),
                    "`]` at the end of the name",
                ));
            }
            Some(']') => {
                return Err(HostlistError::new(
                    open..open + 1,
                    "`]` without `[`",
                    "`[` before it",
                ));
            }
            Some(_) => {}
        }
        let inner = open + 1;
        let Some(length) = list[inner..span.end].find(']') else {
            return Err(HostlistError::new(
                open..span.end,
                "the bracket is not closed",
                "`]`",
            ));
        };
        item.texts.push(literal);
        item.brackets
            .push(parse_bracket(list, inner..inner + length)?);
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
        return Err(HostlistError::new(
            at..at + 1,
            "brackets cannot stand inside brackets",
            "`]` before the next `[`",
        ));
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
    if let Some((i, c)) = part
        .char_indices()
        .find(|(_, c)| !c.is_ascii_digit() && *c != '-')
    {
        return Err(HostlistError::new(
            at + i..at + i + c.len_utf8(),
            format!("{} is not allowed inside brackets", shown(c)),
            "digits, `-` and `,`",
        ));
    }
    let (low_text, high_text) = part.split_once('-').unwrap_or((part, part));
    if let Some(i) = high_text.find('-') {
        let from = span.end - high_text.len() + i;
        return Err(HostlistError::new(
            from..span.end,
            "a range has two ends",
            "`LOW-HIGH`",
        ));
    }
    if low_text.is_empty() || high_text.is_empty() {
        return Err(HostlistError::new(
            span,
            format!("the range `{part}` lacks one end"),
            "`LOW-HIGH`",
        ));
    }
    let low = number(low_text, at)?;
    let high = number(high_text, span.end - high_text.len())?;
    if low > high {
        let expected = format!("the smaller number first: `{high_text}-{low_text}`");
        return Err(HostlistError::new(
            span,
            format!("the range `{part}` runs backwards"),
            expected,
        ));
    }
    if high - low >= MAX_RANGE {
        let message = format!("the range `{part}` has {} hosts", high - low + 1);
        return Err(HostlistError::new(
            span,
            message,
            format!("at most {MAX_RANGE} hosts, which is Slurm's limit"),
        ));
    }
    Ok(Numbers {
        low,
        high,
        width: low_text.len(),
    })
}

fn number(text: &str, at: usize) -> Result<u64, HostlistError> {
    let error = || {
        HostlistError::new(
            at..at + text.len(),
            "the number is too long",
            format!("at most {MAX_DIGITS} digits"),
        )
    };
    if text.len() > MAX_DIGITS {
        Err(error())
    } else {
        text.parse().map_err(|_| error())
    }
}

impl Item<'_> {
    fn count(&self) -> u64 {
        (self.brackets.iter())
            .map(|ranges| ranges.iter().map(Numbers::count).sum::<u64>())
            .fold(1, u64::saturating_mul)
    }

    /// Slurm runs through the last bracket fastest, then through the others from the left.
    fn expand_into(&self, names: &mut Vec<String>) {
        let Some((last, before)) = self.brackets.split_last() else {
            names.extend(self.texts.iter().map(|&text| text.to_owned()));
            return;
        };
        let mut stems = vec![String::new()];
        let mut stem_of_stems = Vec::new();
        for (text, ranges) in self.texts.iter().zip(before) {
            let numbers: Vec<String> = ranges.iter().flat_map(Numbers::texts).collect();
            // The first bracket must vary fastest, so each further one is the outer loop.
            for number in &numbers {
                stem_of_stems.extend(stems.iter().map(|stem| format!("{stem}{text}{number}")));
            }
            stems = std::mem::take(&mut stem_of_stems);
        }
        let text = self.texts.last().copied().unwrap_or_default();
        for stem in &stems {
            for number in last.iter().flat_map(Numbers::texts) {
                names.push([stem.as_str(), text, number.as_str()].concat());
            }
        }
    }
}

impl Numbers {
    fn texts(&self) -> impl Iterator<Item = String> {
        let width = self.width;
        (self.low..=self.high).map(move |n| format!("{n:0width$}"))
    }
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
