//! The JSON Schema of `cluster.toml`, for editors. It is built from the same tables as the reader.

use serde_json::{Map, Value, json};

use crate::tables::File;
use crate::written::{Absent, Key, Written as _};

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
pub(crate) fn table(keys: &[Key], doc: &str) -> Value {
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<&str> =
        keys.iter().filter(|key| matches!(key.absent, Absent::IsAnError)).map(|key| key.name).collect();
    json!({
        "type": "object",
        "description": doc.trim(),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(key: &Key) -> Value {
    let mut schema = key.schema.clone();
    let description = match &key.absent {
        Absent::Otherwise(words) => format!("{} Default: {words}.", key.doc),
        _ => key.doc.clone(),
    };
    if let Value::Object(map) = &mut schema {
        map.insert("description".to_owned(), json!(description));
        if let Absent::Means(value) = &key.absent {
            map.insert("default".to_owned(), value.clone());
        }
    }
    schema
}

/// The empty value of a list or of a table.
pub(crate) fn empty(schema: &Value) -> Value {
    if schema["type"] == "array" { json!([]) } else { json!({}) }
}
