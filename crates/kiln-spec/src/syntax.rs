//! The file as TOML.

use toml_edit::Document;

use crate::diagnostic::Findings;

/// The parsed document, or its syntax errors.
pub(crate) fn parse<'a>(text: &'a str, findings: &mut Findings<'_>) -> Option<Document<&'a str>> {
    match Document::parse(text) {
        Ok(document) => Some(document),
        Err(error) => {
            let mut lines = error.message().lines();
            let message = lines.next().unwrap_or("not valid TOML").to_owned();
            let expected = lines.next().and_then(|line| line.strip_prefix("expected "));
            let finding = findings.error("toml-syntax", error.span().unwrap_or(0..0), message);
            if let Some(expected) = expected {
                finding.expected(expected);
            }
            None
        }
    }
}
