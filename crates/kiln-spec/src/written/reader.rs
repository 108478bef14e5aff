//! Walks the parsed document and reports what does not fit, without stopping at the first.

use std::ops::Range;

use toml_edit::{ArrayOfTables, Item, TableLike, Value};

use super::places::belongs_to;
use super::values::Text;
use crate::diagnostic::{Diagnostic, Findings};
use crate::nearest::nearest;
use crate::words::or_list;

/// A value of the document with its place.
pub(crate) struct Source<'a> {
    pub shape: Shape<'a>,
    pub span: Range<usize>,
}

pub(crate) enum Shape<'a> {
    Value(&'a Value),
    Table(&'a dyn TableLike),
    Tables(&'a ArrayOfTables),
}

impl<'a> Source<'a> {
    /// The value behind a key. A table is pointed at by its name: its body can be screens long.
    pub fn of_item(item: &'a Item, key_span: &Range<usize>) -> Self {
        match item {
            Item::Value(value) => Source::of_value(value, key_span),
            Item::Table(table) => Source { shape: Shape::Table(table), span: key_span.clone() },
            Item::ArrayOfTables(tables) => Source { shape: Shape::Tables(tables), span: key_span.clone() },
            Item::None => unreachable_none(key_span),
        }
    }

    pub fn of_value(value: &'a Value, fallback: &Range<usize>) -> Self {
        let span = value.span().unwrap_or_else(|| fallback.clone());
        match value {
            // `a.b = 1` makes a table out of thin air: its only place is its key.
            Value::InlineTable(table) => {
                let span = table.span().unwrap_or_else(|| fallback.clone());
                Source { shape: Shape::Table(table), span }
            }
            value => Source { shape: Shape::Value(value), span },
        }
    }

    /// The value's type in words an administrator knows.
    pub fn kind(&self) -> &'static str {
        match self.shape {
            Shape::Table(_) => "a table",
            Shape::Tables(_) => "a list of tables",
            Shape::Value(value) => match value {
                Value::String(_) => "a string",
                Value::Integer(_) => "an integer",
                Value::Float(_) => "a decimal number",
                Value::Boolean(_) => "a boolean",
                Value::Datetime(_) => "a date",
                Value::Array(_) => "a list",
                Value::InlineTable(_) => "a table",
            },
        }
    }

    /// The members of a list.
    pub fn members(&self) -> Option<Vec<Source<'a>>> {
        match self.shape {
            Shape::Value(Value::Array(array)) => {
                Some(array.iter().map(|value| Source::of_value(value, &self.span)).collect())
            }
            Shape::Tables(tables) => Some(
                (tables.iter())
                    .map(|table| Source {
                        shape: Shape::Table(table),
                        span: table.span().unwrap_or_else(|| self.span.clone()),
                    })
                    .collect(),
            ),
            _ => None,
        }
    }
}

/// The parser never hands out an empty item; an empty table reads as "nothing was written".
fn unreachable_none<'a>(span: &Range<usize>) -> Source<'a> {
    static EMPTY: std::sync::LazyLock<toml_edit::Table> = std::sync::LazyLock::new(toml_edit::Table::new);
    Source { shape: Shape::Table(&*EMPTY), span: span.clone() }
}

pub(crate) struct Reader<'r, 's> {
    pub findings: &'r mut Findings<'s>,
    /// Keys that lead to the value being read.
    path: Vec<String>,
    /// Which member of a list is being read, from 1.
    member: Option<usize>,
}

impl<'r, 's> Reader<'r, 's> {
    pub fn new(findings: &'r mut Findings<'s>) -> Self {
        Reader { findings, path: Vec::new(), member: None }
    }

    /// Reads something below a key.
    pub fn inside<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(key.to_owned());
        let outer = self.member.take();
        let value = read(self);
        self.member = outer;
        self.path.pop();
        value
    }

    /// Reads a member of a list.
    pub fn member<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.member.replace(index + 1);
        let value = read(self);
        self.member = outer;
        value
    }

    /// The keys of a table with their values, or a report that this is not a table.
    pub fn entries<'a>(&mut self, source: &Source<'a>) -> Option<Vec<(Text, Source<'a>)>> {
        let Shape::Table(table) = source.shape else {
            self.wrong_type(source, "a table");
            return None;
        };
        let entry = |(name, item): (&'a str, &'a Item)| {
            let span = table.key(name).and_then(toml_edit::Key::span).unwrap_or_else(|| source.span.clone());
            let value = Source::of_item(item, &span);
            (Text { value: name.to_owned(), span }, value)
        };
        Some(table.iter().map(entry).collect())
    }

    pub fn wrong_type(&mut self, source: &Source<'_>, expected: &str) -> &mut Diagnostic {
        let message = format!("{} is {}", self.here(), source.kind());
        self.findings.error("wrong-type", source.span.clone(), message).expected(expected)
    }

    /// Reports a key the table does not have; returns the one that was probably meant.
    pub fn unknown_key<'k>(&mut self, key: &Text, keys: &[&'k str]) -> Option<&'k str> {
        let message = if self.path.is_empty() {
            format!("unknown table `{}`", key.value)
        } else {
            format!("unknown key `{}` in [{}]", key.value, self.path.join("."))
        };
        let meant = nearest(&key.value, keys.iter().copied());
        let hint = match (meant, belongs_to(&key.value)) {
            (Some(meant), Some(place)) => Some(format!("did you mean `{meant}`? {place}")),
            (Some(meant), None) => Some(format!("did you mean `{meant}`?")),
            (None, place) => place,
        };
        (self.findings.error("unknown-key", key.span.clone(), message))
            .expected(if let [key] = keys { format!("`{key}`") } else { format!("one of {}", or_list(keys)) })
            .maybe_hint(hint);
        meant
    }

    pub fn missing_key(&mut self, source: &Source<'_>, key: &str) {
        if self.path.is_empty() {
            let message = format!("the file has no [{key}] table");
            self.findings.error("missing-key", 0..0, message).expected(format!("[{key}]"));
            return;
        }
        let message = format!("[{}] has no `{key}`", self.path.join("."));
        self.findings
            .error("missing-key", source.span.clone(), message)
            .expected(format!("`{key} = ...` in this table"));
    }

    /// The value being read, as the user would write its path.
    pub fn here(&self) -> String {
        let key = match self.path.split_last() {
            Some((key, [])) => format!("`{key}`"),
            Some((key, tables)) => format!("`{key}` in [{}]", tables.join(".")),
            None => "the file".to_owned(),
        };
        match self.member {
            Some(number) => format!("item {number} of {key}"),
            None => key,
        }
    }
}
