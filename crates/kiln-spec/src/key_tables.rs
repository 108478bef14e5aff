//! The keys of each table of `cluster.toml`, as Markdown for `docs/`.

use serde_json::Value;

use crate::tables::File;
use crate::words::or_list;
use crate::written::{Absent, Key, Written as _};

/// The Markdown table of the keys of a table, which is named by its path without names of the user's: `compute.elastic`.
pub fn key_table(path: &str) -> Option<String> {
    let row = |key: &Key| {
        let cells = [format!("`{}`", key.name), kind(&key.schema), default(key), key.doc.clone()];
        format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
    };
    let rows: String = keys_of(path)?.iter().map(row).collect();
    Some(format!("| key | type | default | meaning |\n| --- | --- | --- | --- |\n{rows}"))
}

/// The paths of all tables that have keys, in the order of the code.
pub fn key_table_paths() -> Vec<String> {
    fn walk(keys: &[Key], above: &str, paths: &mut Vec<String>) {
        for key in keys.iter().filter(|key| !key.keys.is_empty()) {
            let path = if above.is_empty() { key.name.to_owned() } else { format!("{above}.{}", key.name) };
            paths.push(path.clone());
            walk(&key.keys, &path, paths);
        }
    }
    let mut paths = Vec::new();
    walk(&File::keys(), "", &mut paths);
    paths
}

fn keys_of(path: &str) -> Option<Vec<Key>> {
    let mut keys = File::keys();
    for name in path.split('.') {
        keys = keys.into_iter().find(|key| key.name == name)?.keys;
    }
    (!keys.is_empty()).then_some(keys)
}

fn default(key: &Key) -> String {
    match &key.absent {
        Absent::IsAnError => "required".to_owned(),
        Absent::Means(value) => format!("`{value}`"),
        Absent::Otherwise(words) => (*words).to_owned(),
        Absent::Nothing => "none".to_owned(),
    }
}

/// The type of a value in words.
fn kind(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        return or_list(&words);
    }
    if let Some(variants) = schema["oneOf"].as_array() {
        return variants.iter().map(kind).collect::<Vec<_>>().join(", or ");
    }
    match schema["type"].as_str() {
        Some("array") if schema["items"]["enum"].is_array() => format!("list of {}", kind(&schema["items"])),
        Some("array") => format!("list of {}s", kind(&schema["items"])),
        Some("object") => "table".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some(simple) => simple.to_owned(),
        None => "string or number".to_owned(),
    }
}
