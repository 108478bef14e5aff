//! The file as TOML.

use std::ops::Range;

use toml_edit::Document;
use toml_parser::decoder::ScalarKind;
use toml_parser::parser::{Event, EventKind, RecursionGuard, parse_document};
use toml_parser::{Expected, ParseError, Source};

use crate::diagnostic::Findings;

/// As the document parser has it: arrays in arrays go no deeper.
const DEEPEST: u32 = 80;

/// The parsed document, or its syntax errors.
pub(crate) fn parse<'a>(text: &'a str, findings: &mut Findings<'_>) -> Option<Document<&'a str>> {
    let first = match Document::parse(text) {
        Ok(document) => return Some(document),
        Err(error) => error,
    };
    let errors = all_errors(text);
    for error in &errors {
        report(error, findings);
    }
    // What only shows when the document is put together, as a key that is there twice.
    if errors.is_empty() {
        let span = first.span().unwrap_or(0..0);
        let message = first.message().lines().next().unwrap_or("not valid TOML");
        if message == "duplicate key" {
            let key = text.get(span.clone()).unwrap_or_default();
            (findings.error("duplicate-key", span, format!("`{key}` is in the file twice")))
                .expected("each key and each table once");
        } else {
            findings.error("toml-syntax", span, message);
        }
    }
    None
}

/// The document parser stops at the first error; the parts it is made of do not.
fn all_errors(text: &str) -> Vec<ParseError> {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let mut events: Vec<Event> = Vec::new();
    let mut errors: Vec<ParseError> = Vec::new();
    // Without a limit, brackets upon brackets would use up the stack.
    parse_document(&tokens, &mut RecursionGuard::new(&mut events, DEEPEST), &mut errors);
    for event in &events {
        let Some(raw) = source.get(event) else {
            continue;
        };
        match event.kind() {
            EventKind::SimpleKey => raw.decode_key(&mut (), &mut errors),
            EventKind::Scalar => {
                let _: ScalarKind = raw.decode_scalar(&mut (), &mut errors);
            }
            EventKind::Comment => raw.decode_comment(&mut errors),
            EventKind::Newline => raw.decode_newline(&mut errors),
            _ => {}
        }
    }
    errors
}

fn report(error: &ParseError, findings: &mut Findings<'_>) {
    let at = error.unexpected().or(error.context());
    let span: Range<usize> = at.map_or(0..0, |span| span.start()..span.end());
    let finding = findings.error("toml-syntax", span, error.description());
    let expected: Vec<String> = error.expected().unwrap_or_default().iter().map(words).collect();
    if !expected.is_empty() {
        finding.expected(expected.join(" or "));
    }
}

fn words(expected: &Expected) -> String {
    match expected {
        Expected::Literal("\n") => "the end of the line".to_owned(),
        Expected::Description("literal string") => "a string in quotes".to_owned(),
        Expected::Literal(text) => format!("`{text}`"),
        Expected::Description(text) => (*text).to_owned(),
        _ => "something else".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn brackets_upon_brackets_are_an_error() {
        for bracket in ["[", "{a="] {
            let text = format!("x = {}", bracket.repeat(5000));
            let errors = crate::parse(&text, "cluster.toml").unwrap_err().to_string();
            assert!(errors.contains("toml-syntax"), "{errors}");
        }
    }
}
