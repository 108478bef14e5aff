//! Words, letters and colours for what is shown. The letters are the dashboard's.

use std::cmp::Ordering;

use jiff::Timestamp;
use kiln_web::view::{NodeKind, Severity};
use ratatui::style::{Color, Modifier, Style};

/// The letter says the same as the colour.
pub fn letter(kind: NodeKind) -> char {
    match kind {
        NodeKind::Idle => 'I',
        NodeKind::Mixed => 'M',
        NodeKind::Allocated => 'A',
        NodeKind::Booting => 'B',
        NodeKind::Rebuilding => 'R',
        NodeKind::Off => 'O',
        NodeKind::Draining => 'G',
        NodeKind::Drained => 'D',
        NodeKind::Maintenance => 'T',
        NodeKind::Down => 'X',
        NodeKind::Unknown => '?',
    }
}

/// Worst first.
pub const KINDS: [NodeKind; 11] = [
    NodeKind::Down,
    NodeKind::Unknown,
    NodeKind::Drained,
    NodeKind::Draining,
    NodeKind::Maintenance,
    NodeKind::Rebuilding,
    NodeKind::Booting,
    NodeKind::Allocated,
    NodeKind::Mixed,
    NodeKind::Idle,
    NodeKind::Off,
];

/// Colours of the terminal's own palette, so that they fit what its owner has chosen.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    pub has_colour: bool,
}

#[allow(clippy::unused_self, reason = "styles without a colour are asked for like the others")]
impl Palette {
    fn of(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    pub fn node(self, kind: NodeKind) -> Style {
        match kind {
            NodeKind::Down | NodeKind::Unknown => self.bad(),
            NodeKind::Drained | NodeKind::Draining | NodeKind::Maintenance => self.of(Color::Yellow),
            NodeKind::Rebuilding | NodeKind::Booting => self.of(Color::Magenta),
            NodeKind::Allocated => self.of(Color::Blue),
            NodeKind::Mixed => self.of(Color::Cyan),
            NodeKind::Idle => self.good(),
            NodeKind::Off => self.faint(),
        }
    }

    pub fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Broken => self.bad(),
            Severity::Warning => self.of(Color::Yellow),
            Severity::Note => Style::new(),
        }
    }

    pub fn step(self, step: &str) -> Style {
        match step {
            "done" => self.good(),
            "failed" => self.bad(),
            "pending" | "skipped" => self.faint(),
            _ => self.of(Color::Magenta),
        }
    }

    pub fn bad(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn good(self) -> Style {
        self.of(Color::Green)
    }

    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn picked(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

pub fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Broken => "!",
        Severity::Warning => "W",
        Severity::Note => "N",
    }
}

/// `40 s`, `3 min`, `2 h`, `5 d`.
pub fn span(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}

pub fn since(time: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(time).as_secs())
}

/// The time of day, in UTC, with the date where it is another day's.
pub fn clock(time: Timestamp, now: Timestamp) -> String {
    let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
    if day(time) == day(now) {
        time.strftime("%H:%M:%S").to_string()
    } else {
        time.strftime("%m-%d %H:%M").to_string()
    }
}

/// 2 before 10.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (parts(a), parts(b));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(one), Some(other)) => match (one.parse::<u64>(), other.parse::<u64>()) {
                (Ok(number), Ok(another)) => number.cmp(&another).then_with(|| one.cmp(other)),
                _ => one.cmp(other),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Digits and what is between them, in turn.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_digit = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_as_numbers() {
        let mut names = ["n-10", "n-2", "m", "n-2-b", "n-02"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["m", "n-02", "n-2", "n-2-b", "n-10"]);
    }

    #[test]
    fn every_kind_has_a_letter_of_its_own() {
        let letters: std::collections::BTreeSet<char> =
            NodeKind::ALL.iter().map(|kind| letter(*kind)).collect();
        assert_eq!(letters.len(), NodeKind::ALL.len());
        assert_eq!(KINDS.len(), NodeKind::ALL.len());
    }

    #[test]
    fn another_days_time_has_a_date() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(clock(at("2026-01-31T09:00:00Z"), at("2026-01-31T10:00:00Z")), "09:00:00");
        assert_eq!(clock(at("2026-01-30T09:00:00Z"), at("2026-01-31T10:00:00Z")), "01-30 09:00");
        assert_eq!(
            ["45 s", "3 min", "2 h"],
            [span(45), span(200), span(7300)].each_ref().map(String::as_str)
        );
    }
}
