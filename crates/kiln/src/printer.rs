//! All output goes through here: data to standard output, messages to standard error.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use indicatif::MultiProgress;
use kiln_spec::Diagnostics;
use serde::Serialize;

use crate::error::Report;
use crate::harmless::harmless;
use crate::live::LiveLines;
use crate::progress::Progress;

const YELLOW: Style = AnsiColor::Yellow.on_default().bold();

/// Cheap to clone; every clone writes around the same progress bars.
#[derive(Clone)]
pub struct Printer {
    json: bool,
    quiet: bool,
    /// Only where standard error is a terminal that nothing else writes to.
    bars: Option<MultiProgress>,
}

impl Printer {
    /// With `json`, messages are left out: what remains on standard error is JSON too. With `verbose`, the log goes
    /// to the same terminal as the bars would, so progress is shown as plain lines.
    pub fn new(json: bool, quiet: bool, verbose: bool) -> Printer {
        let quiet = quiet || json;
        let live = !quiet && !verbose && io::stderr().is_terminal();
        Printer { json, quiet, bars: live.then(MultiProgress::new) }
    }

    pub fn stderr_has_colour() -> bool {
        anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
    }

    /// The user asked for JSON instead of text.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// What the user asked for, to standard output. A newline is added.
    pub fn data(&self, text: impl fmt::Display) -> Result<(), OutputError> {
        self.foreign(&format!("{text}\n"))
    }

    /// As [`Printer::data`], but the text is written as it is.
    pub fn raw(&self, text: impl fmt::Display) -> Result<(), OutputError> {
        self.around_bars(|| {
            let mut out = anstream::stdout().lock();
            write!(out, "{text}").and_then(|()| out.flush()).map_err(OutputError)
        })
    }

    /// As [`Printer::raw`], for what comes from a node: unchanged into a file or a pipe, harmless to a terminal.
    pub fn foreign(&self, text: &str) -> Result<(), OutputError> {
        self.raw(shown(text, &io::stdout()))
    }

    /// Data as indented JSON, to standard output.
    pub fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.data(serde_json::to_string_pretty(value)?)?)
    }

    /// A message about what is going on or was done. Not meant for scripts.
    pub fn say(&self, text: impl fmt::Display) {
        if !self.quiet {
            let text = text.to_string();
            self.to_stderr(format!("{}\n", shown(&text, &io::stderr())));
        }
    }

    /// Shown even when quiet.
    pub fn warn(&self, text: impl fmt::Display) {
        if self.json {
            self.to_stderr(format!("{}\n", serde_json::json!({ "warning": text.to_string() })));
        } else {
            let text = text.to_string();
            self.to_stderr(format!("{YELLOW}warning{YELLOW:#}: {}\n", shown(&text, &io::stderr())));
        }
    }

    /// What was found in the cluster file. Shown even when quiet.
    pub fn findings(&self, found: &Diagnostics) {
        if self.json {
            found.iter().for_each(|finding| self.warn(&finding.message));
        } else if !found.is_empty() {
            self.to_stderr(format!("{}\n", found.render(true)));
        }
    }

    /// The error that ended the run. Called once, by `main`.
    pub fn error(&self, error: &anyhow::Error) {
        let report = Report::new(error);
        self.to_stderr(if self.json { report.to_json() + "\n" } else { report.to_text() });
    }

    /// For work that takes a while.
    /// The same without anything that is updated in place: there will be questions in between.
    pub fn without_bars(&self) -> Printer {
        Printer { bars: None, ..self.clone() }
    }

    pub fn progress(&self) -> Progress {
        if self.quiet { Progress::quiet() } else { Progress::new(self.bars.clone()) }
    }

    /// Lines at the bottom of the terminal that are updated in place; `None` without a terminal.
    pub fn live_lines(&self) -> Option<LiveLines> {
        self.bars.clone().map(LiveLines::new)
    }

    /// Data as JSON on one line, for output that grows while it is read.
    pub fn json_line(&self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.data(serde_json::to_string(value)?)?)
    }

    fn to_stderr(&self, text: impl fmt::Display) {
        // Nothing is left to tell if even this cannot be written.
        self.around_bars(|| _ = write!(anstream::stderr().lock(), "{text}"));
    }

    fn around_bars<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }
}

/// Names of jobs and reasons are any user's text.
fn shown<'t>(text: &'t str, to: &impl IsTerminal) -> Cow<'t, str> {
    if to.is_terminal() { harmless(text) } else { Cow::Borrowed(text) }
}

#[derive(Debug)]
pub struct OutputError(io::Error);

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write to standard output")
    }
}

impl std::error::Error for OutputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

pub fn output_was_closed(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<OutputError>()
        .is_some_and(|OutputError(cause)| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_text_does_nothing_to_a_terminal() {
        let terminal = std::fs::File::open("/dev/ptmx").expect("a terminal");
        let job = "job 7 of alice (\u{1b}]0;title\u{7})";
        assert_eq!(shown(job, &terminal), "job 7 of alice (\\x1b]0;title\\x07)");
        let file = std::fs::File::open("/dev/null").expect("a file");
        assert_eq!(shown(job, &file), job);
    }
}
