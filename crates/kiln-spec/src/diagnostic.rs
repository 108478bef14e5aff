//! What is wrong with a file: where, what was expected, and how to correct it.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// One finding in the user's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable name of the kind of finding, for scripts.
    pub code: &'static str,
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    pub message: String,
    /// What would have been right in this place.
    pub expected: Option<String>,
    /// How to correct it.
    pub hint: Option<String>,
    /// Bytes of the source.
    #[serde(skip)]
    pub span: Range<usize>,
    /// Other places that belong to it, each with a few words.
    #[serde(skip)]
    pub related: Vec<(Range<usize>, String)>,
}

impl Diagnostic {
    pub(crate) fn expected(&mut self, expected: impl Into<String>) -> &mut Self {
        self.expected = Some(expected.into());
        self
    }

    pub(crate) fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the hint if there is one to give.
    pub(crate) fn maybe_hint(&mut self, hint: Option<String>) -> &mut Self {
        self.hint = hint.or(self.hint.take());
        self
    }

    pub(crate) fn related(&mut self, span: Range<usize>, label: impl Into<String>) -> &mut Self {
        self.related.push((span, label.into()));
        self
    }
}

/// Everything that was found in one file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    pub(crate) file: String,
    pub(crate) source: String,
    pub(crate) list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }
}

impl Serialize for Diagnostics {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(serializer)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// Warnings about one line, whatever the rest of the file says.
const ABOUT_ONE_LINE: &[&str] = &["unknown-parameter", "own-file"];

/// Collects findings while a file is read, so that all of them can be shown at once.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    source: &'a str,
    file: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    list: Vec<Diagnostic>,
}

impl<'a> Findings<'a> {
    pub fn new(source: &'a str, file: &'a str) -> Self {
        let breaks = source.match_indices('\n').map(|(i, _)| i + 1);
        Findings { source, file, lines: std::iter::once(0).chain(breaks).collect(), list: Vec::new() }
    }

    pub fn source(&self) -> &'a str {
        self.source
    }

    pub fn error(
        &mut self,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Error, code, span, message.into())
    }

    pub fn warning(
        &mut self,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Warning, code, span, message.into())
    }

    fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        span: Range<usize>,
        message: String,
    ) -> &mut Diagnostic {
        let span = clamp(self.source, span);
        let (line, column) = self.position(span.start);
        let index = self.list.len();
        self.list.push(Diagnostic {
            severity,
            code,
            file: self.file.to_owned(),
            line,
            column,
            message,
            expected: None,
            hint: None,
            span,
            related: Vec::new(),
        });
        &mut self.list[index]
    }

    /// Line and column, in characters, from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        (line, self.source[start..offset].chars().count() + 1)
    }

    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// What was found, in the order of the file. Next to errors only those warnings stay that cannot be
    /// wrong because of them.
    pub fn finish(mut self) -> Diagnostics {
        if self.has_errors() {
            self.list.retain(|d| d.severity == Severity::Error || ABOUT_ONE_LINE.contains(&d.code));
        }
        self.list.sort_by_key(|d| d.span.start);
        Diagnostics { file: self.file.to_owned(), source: self.source.to_owned(), list: self.list }
    }
}

/// Moves a span onto the source and onto character borders, so that showing it cannot fail.
fn clamp(source: &str, span: Range<usize>) -> Range<usize> {
    let border = |mut offset: usize| {
        offset = offset.min(source.len());
        while !source.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    };
    let start = border(span.start);
    start..border(span.end).max(start)
}
