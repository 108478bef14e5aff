//! The kinds of values that keys have.

use std::ops::Range;

use serde_json::json;
use toml_edit::Value;

use super::reader::{Reader, Shape, Source};
use super::{Key, Written};
use crate::nearest::did_you_mean;
use crate::words::or_list;
use crate::{ConfigValue, ImageUpdate, Role};

/// A value and its place in the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct At<T> {
    pub value: T,
    pub span: Range<usize>,
}

pub(crate) type Text = At<String>;
pub(crate) type List<T> = At<Vec<T>>;

/// Sub-tables by name, in the order of the file.
pub(crate) type Named<T> = Vec<(Text, T)>;

impl<T> At<T> {
    pub fn new(value: T, span: Range<usize>) -> Self {
        At { value, span }
    }
}

impl Text {
    /// The place of a part of a string or key, if the file holds it letter by letter; else of the whole.
    pub fn part(&self, source: &str, part: Range<usize>) -> Range<usize> {
        let written = source.get(self.span.clone()).unwrap_or_default();
        if written == self.value {
            return self.span.start + part.start..self.span.start + part.end;
        }
        let quote = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
        let inner = written.get(quote..written.len().saturating_sub(quote));
        let start = self.span.start + quote;
        if inner == Some(&self.value) { start + part.start..start + part.end } else { self.span.clone() }
    }
}

impl Written for Text {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        if let Shape::Value(Value::String(text)) = source.shape {
            return Some(At::new(text.value().clone(), source.span.clone()));
        }
        let quoted = quoted(source, reader);
        reader.wrong_type(source, "a string").maybe_hint(quoted);
        None
    }

    fn schema() -> serde_json::Value {
        json!({"type": "string"})
    }
}

/// "write it in quotes", for a value that would be right as a string.
fn quoted(source: &Source<'_>, reader: &Reader<'_, '_>) -> Option<String> {
    let Shape::Value(Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_)) =
        source.shape
    else {
        return None;
    };
    let written = reader.findings.source().get(source.span.clone())?;
    Some(format!("write it in quotes: \"{written}\""))
}

impl Written for At<i64> {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        if let Shape::Value(Value::Integer(number)) = source.shape {
            return Some(At::new(*number.value(), source.span.clone()));
        }
        let unquoted = match source.shape {
            Shape::Value(Value::String(text)) => text.value().parse::<i64>().ok(),
            _ => None,
        };
        let hint = unquoted.map(|number| format!("write it without quotes: {number}"));
        reader.wrong_type(source, "an integer").maybe_hint(hint);
        None
    }

    fn schema() -> serde_json::Value {
        json!({"type": "integer"})
    }
}

impl Written for At<f64> {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        let number = match source.shape {
            Shape::Value(Value::Float(number)) => *number.value(),
            #[allow(clippy::cast_precision_loss, reason = "nobody writes a number of sixteen digits")]
            Shape::Value(Value::Integer(number)) => *number.value() as f64,
            _ => {
                reader.wrong_type(source, "a number");
                return None;
            }
        };
        Some(At::new(number, source.span.clone()))
    }

    fn schema() -> serde_json::Value {
        json!({"type": "number"})
    }
}

impl Written for At<bool> {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        if let Shape::Value(Value::Boolean(flag)) = source.shape {
            return Some(At::new(*flag.value(), source.span.clone()));
        }
        reader.wrong_type(source, "true or false");
        None
    }

    fn schema() -> serde_json::Value {
        json!({"type": "boolean"})
    }
}

impl<T: Written> Written for List<T> {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        let Some(members) = source.members() else {
            let hint = matches!(source.shape, Shape::Value(Value::String(_)))
                .then(|| reader.findings.source().get(source.span.clone()))
                .flatten()
                .map(|written| format!("write it in brackets: [{written}]"));
            reader.wrong_type(source, "a list").maybe_hint(hint);
            return None;
        };
        let read = |(i, member)| reader.member(i, |reader| T::read(member, reader));
        let values: Vec<Option<T>> = members.iter().enumerate().map(read).collect();
        // With a member missing, later checks of the list would only repeat the error in other words.
        let values = values.into_iter().collect::<Option<Vec<T>>>()?;
        Some(At::new(values, source.span.clone()))
    }

    fn schema() -> serde_json::Value {
        json!({"type": "array", "items": T::schema()})
    }

    fn keys() -> Vec<Key> {
        T::keys()
    }
}

impl<T: Written> Written for Named<T> {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        let entries = reader.entries(source)?;
        let read = |(key, value): (Text, Source<'_>)| {
            let table = reader.inside(&key.value, |reader| T::read(&value, reader))?;
            Some((key, table))
        };
        Some(entries.into_iter().filter_map(read).collect())
    }

    fn shown(key: &str) -> String {
        format!("{key}.NAME")
    }

    fn schema() -> serde_json::Value {
        json!({"type": "object", "additionalProperties": T::schema()})
    }

    fn keys() -> Vec<Key> {
        T::keys()
    }
}

/// A value of Slurm's configuration, as text.
#[derive(Debug)]
pub(crate) struct Scalar(pub Text);

impl Written for Scalar {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        let text = match source.shape {
            Shape::Value(Value::String(text)) => text.value().clone(),
            Shape::Value(Value::Integer(number)) => number.value().to_string(),
            // Slurm's own words for a boolean.
            Shape::Value(Value::Boolean(flag)) => if *flag.value() { "YES" } else { "NO" }.to_owned(),
            _ => {
                reader.wrong_type(source, "a string, an integer or a boolean");
                return None;
            }
        };
        Some(Scalar(At::new(text, source.span.clone())))
    }

    fn schema() -> serde_json::Value {
        json!({"type": ["string", "integer", "boolean"]})
    }
}

impl Written for At<ConfigValue> {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        let value = match source.shape {
            Shape::Value(Value::Boolean(flag)) if !*flag.value() => ConfigValue::Removed,
            Shape::Value(Value::Boolean(_)) => ConfigValue::Set("YES".to_owned()),
            Shape::Value(Value::String(text)) => ConfigValue::Set(text.value().clone()),
            Shape::Value(Value::Integer(number)) => ConfigValue::Set(number.value().to_string()),
            Shape::Value(Value::Array(_)) => {
                let list = List::<Text>::read(source, reader)?;
                ConfigValue::List(list.value.into_iter().map(|text| text.value).collect())
            }
            _ => {
                reader.wrong_type(source, "a string, an integer, a list of strings, true or false");
                return None;
            }
        };
        Some(At::new(value, source.span.clone()))
    }

    fn schema() -> serde_json::Value {
        json!({"type": ["string", "integer", "boolean", "array"], "items": {"type": "string"}})
    }
}

/// A string that must be one of a few words.
pub(crate) trait Choice: Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];

    /// The word that somebody means who writes another name of the same thing.
    fn meant(_written: &str) -> Option<&'static str> {
        None
    }
}

impl<T: Choice> Written for At<T> {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        let text = Text::read(source, reader)?;
        if let Some((_, value)) = T::WORDS.iter().find(|(word, _)| *word == text.value) {
            return Some(At::new(*value, text.span));
        }
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        let message = format!("{} cannot be `{}`", reader.here(), text.value);
        (reader.findings.error("unknown-value", text.span, message)).expected(or_list(&words)).maybe_hint(
            match T::meant(&text.value) {
                Some(meant) => Some(format!("did you mean `{meant}`?")),
                None => did_you_mean(&text.value, words.iter().copied()),
            },
        );
        None
    }

    fn schema() -> serde_json::Value {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        json!({"type": "string", "enum": words})
    }
}

impl Choice for Role {
    const WORDS: &'static [(&'static str, Self)] =
        &[("control", Role::Control), ("login", Role::Login), ("compute", Role::Compute)];
}

impl Choice for ImageUpdate {
    const WORDS: &'static [(&'static str, Self)] =
        &[("apply", ImageUpdate::Apply), ("slurm", ImageUpdate::Slurm)];
}
