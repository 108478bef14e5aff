//! The JSON Schema of `cluster.toml`, for editors. It is built from the same tables as the reader.

use serde_json::{Map, Value, json};

use crate::written::{File, Written as _};

/// JSON Schema (draft 2020-12) of `cluster.toml`.
pub fn schema() -> Value {
    let mut schema = File::schema();
    if let Value::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".to_owned(), json!("Kiln cluster.toml"));
    }
    schema
}

/// A table with exactly these keys.
pub(crate) fn table(properties: &Map<String, Value>, required: &[&str], doc: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    described(schema, doc)
}

pub(crate) fn described(mut schema: Value, doc: &str) -> Value {
    if let Value::Object(map) = &mut schema {
        map.insert("description".to_owned(), json!(doc.trim()));
    }
    schema
}
