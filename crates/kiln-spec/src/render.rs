//! Findings as text that points into the user's file.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};

/// A file that is wrong throughout would push the first error off the screen.
const MAX_SHOWN: usize = 50;

impl Diagnostics {
    /// The findings with the lines they are about, and a last line that counts them.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for finding in self.list.iter().take(MAX_SHOWN) {
            text.push_str(&renderer.render(&[self.group(finding)]));
            text.push_str("\n\n");
        }
        text.push_str(&self.summary());
        text
    }

    fn group<'a>(&'a self, finding: &'a Diagnostic) -> Group<'a> {
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut primary = AnnotationKind::Primary.span(finding.span.clone());
        if let Some(expected) = &finding.expected {
            primary = primary.label(format!("expected {expected}"));
        }
        let mut snippet = Snippet::source(&self.source).path(&self.file).annotation(primary);
        for (span, label) in &finding.related {
            snippet = snippet.annotation(AnnotationKind::Context.span(span.clone()).label(label));
        }
        let group = level.primary_title(&finding.message).id(finding.code).element(snippet);
        match &finding.hint {
            Some(hint) => group.element(Level::HELP.message(hint)),
            None => group,
        }
    }

    fn summary(&self) -> String {
        let errors = self.list.iter().filter(|d| d.severity == Severity::Error).count();
        let counts = [(errors, "error"), (self.list.len() - errors, "warning")];
        let counts: Vec<String> = (counts.iter())
            .filter(|(n, _)| *n > 0)
            .map(|(n, word)| format!("{n} {word}{}", if *n == 1 { "" } else { "s" }))
            .collect();
        let shown = if self.list.len() > MAX_SHOWN {
            format!(" (the first {MAX_SHOWN} are shown)")
        } else {
            String::new()
        };
        format!("{}: {}{shown}", self.file, counts.join(", "))
    }
}
