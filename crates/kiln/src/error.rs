//! What an error carries besides its message: a hint for people and an exit code for scripts. And how the chain of an
//! error's causes is shown.

use std::fmt;

use anstyle::{AnsiColor, Style};
use kiln_spec::Diagnostics;
use serde::Serialize;

use crate::exit::Exit;
use crate::harmless::harmless;

const RED: Style = AnsiColor::Red.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default().bold();

/// An error with advice attached. It shows as the error it wraps.
#[derive(Debug)]
pub struct Advised {
    hint: Option<String>,
    exit: Option<Exit>,
    inner: anyhow::Error,
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl std::error::Error for Advised {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source()
    }
}

/// Attach advice to a result: `fs::read(path).hint("is the disk mounted?")?`.
pub trait Advise<T> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
    /// The exit code, where it is not [`Exit::Failed`].
    fn exit(self, exit: Exit) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Advise<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| Advised { hint: Some(hint.into()), exit: None, inner: error.into() }.into())
    }

    fn exit(self, exit: Exit) -> anyhow::Result<T> {
        self.map_err(|error| Advised { hint: None, exit: Some(exit), inner: error.into() }.into())
    }
}

/// The exit code of a run that ended with this error: the outermost one attached.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    links(error).iter().find_map(|link| link.downcast_ref::<Advised>()?.exit).unwrap_or(Exit::Failed)
}

/// The chain of an error, advice included. `source()` of an [`Advised`] skips what it wraps, so plain
/// `chain()` would miss advice inside advice.
fn links(error: &anyhow::Error) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for link in error.chain() {
        links.push(link);
        if let Some(advised) = link.downcast_ref::<Advised>() {
            links.extend(self::links(&advised.inner));
            break;
        }
    }
    links
}

type Link<'a> = &'a (dyn std::error::Error + 'static);

/// An error as people and scripts see it.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    error: String,
    causes: Vec<String>,
    hint: Option<&'a str>,
    /// What is wrong with the cluster file, where that is the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<&'a Diagnostics>,
}

impl<'a> Report<'a> {
    pub fn new(error: &'a anyhow::Error) -> Report<'a> {
        let links = links(error);
        let diagnostics = links.iter().find_map(|link| link.downcast_ref::<Diagnostics>());
        let mut messages = links.iter().filter(|link| !link.is::<Advised>()).map(|link| {
            // The findings themselves stand elsewhere; their last line counts them.
            let text = link.to_string();
            if link.is::<Diagnostics>() { text.lines().last().unwrap_or_default().to_owned() } else { text }
        });
        Report {
            error: messages.next().unwrap_or_default(),
            causes: messages.collect(),
            hint: links.iter().find_map(|link| link.downcast_ref::<Advised>()?.hint.as_deref()),
            diagnostics,
        }
    }

    /// One line, so that it can be told apart from whatever else is on standard error.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| format!("{{\"error\":{:?}}}", self.error))
    }

    pub fn to_text(&self) -> String {
        let findings = self.diagnostics.map(|d| strip_summary(&d.render(true)));
        let error = format!("{RED}error{RED:#}: {}\n", indent(&self.error));
        let causes = self.causes.iter().map(|c| format!("  caused by: {}\n", indent(c)));
        let hint = self.hint.iter().map(|hint| format!("{CYAN}hint{CYAN:#}: {hint}\n"));
        findings.into_iter().chain([error]).chain(causes).chain(hint).collect()
    }
}

/// The count of findings is the error's message and shown as such.
fn strip_summary(findings: &str) -> String {
    findings.rsplit_once('\n').map(|(findings, _)| format!("{findings}\n")).unwrap_or_default()
}

/// Later lines of a message stand below its first.
fn indent(message: &str) -> String {
    harmless(message.trim_end()).replace('\n', "\n    ")
}

/// Prints clap's messages: help and versions on standard output, wrong usage on standard error.
pub fn report_usage(error: &clap::Error) -> Exit {
    let json = std::env::args_os().any(|arg| arg == "--json");
    if json && error.use_stderr() {
        // The first line is the message; the rest is the usage text, made for people.
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let hint = Some("run with --help to see the usage");
        let report = Report { error: message, causes: Vec::new(), hint, diagnostics: None };
        anstream::eprintln!("{}", report.to_json());
    } else {
        // Nothing is left to tell if even this cannot be written.
        let _ = error.print();
    }
    if error.use_stderr() { Exit::Usage } else { Exit::Ok }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    fn chain() -> anyhow::Error {
        Err::<(), _>(anyhow!("connection refused"))
            .exit(Exit::Usage)
            .context("cannot reach control")
            .hint("is it up?")
            .context("status is unknown")
            .expect_err("it is one")
    }

    #[test]
    fn every_link_is_shown_once() {
        let text = anstream::adapter::strip_str(&Report::new(&chain()).to_text()).to_string();
        insta::assert_snapshot!(text, @r"
        error: status is unknown
          caused by: cannot reach control
          caused by: connection refused
        hint: is it up?
        ");
    }

    #[test]
    fn what_a_node_said_cannot_steer_the_terminal() {
        let said = anyhow!("exit 1\n\u{1b}[2Jgone");
        let text = anstream::adapter::strip_str(&Report::new(&said).to_text()).to_string();
        assert_eq!(text, "error: exit 1\n    \\x1b[2Jgone\n");
    }

    #[test]
    fn json_has_the_same_parts() {
        insta::assert_snapshot!(
            Report::new(&chain()).to_json(),
            @r#"{"error":"status is unknown","causes":["cannot reach control","connection refused"],"hint":"is it up?"}"#
        );
    }

    #[test]
    fn advice_is_found_below_advice() {
        assert_eq!(exit_of(&chain()), Exit::Usage);
        assert_eq!(exit_of(&anyhow!("plain")), Exit::Failed);
    }
}
