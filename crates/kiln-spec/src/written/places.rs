//! Which tables have a key: for one that stands in the wrong table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::Written as _;
use crate::slurm_parameters::is_known;
use crate::tables::File;
use crate::words::and_join;

type Tables = BTreeMap<String, Vec<String>>;

/// The headers of the tables, by key.
static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables::new();
    collect(&File::schema(), "", false, &mut tables);
    // The schema's own order depends on what else is built with serde_json.
    for headers in tables.values_mut() {
        headers.sort_unstable();
    }
    tables
});

/// "`packages` belongs to [image.NAME] and [role.ROLE]", unless no table has the key.
pub(super) fn belongs_to(key: &str) -> Option<String> {
    let parameter = [String::from("[slurm.config]")];
    let tables = match TABLES.get(key) {
        Some(tables) => tables.as_slice(),
        None if is_known(key) => &parameter,
        None => return None,
    };
    Some(format!("`{key}` belongs to {}", and_join(tables)))
}

/// Walks the schema of a table, or of several that have names or numbers.
fn collect(schema: &Value, path: &str, listed: bool, tables: &mut Tables) {
    let header = match (path, listed) {
        ("", _) => "the top of the file".to_owned(),
        (path, false) => format!("[{path}]"),
        (path, true) => format!("[[{path}]]"),
    };
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let headers = tables.entry(key.clone()).or_default();
        if !headers.contains(&header) {
            headers.push(header.clone());
        }
        // The roles' tables have the same keys.
        let name = if path == "role" { "ROLE" } else { key };
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        collect(value, &path, false, tables);
    }
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        collect(variant, path, listed, tables);
    }
    let name = if path.ends_with(".override") { "NODES" } else { "NAME" };
    collect_in(&schema["additionalProperties"], &format!("{path}.{name}"), false, tables);
    collect_in(&schema["items"], path, true, tables);
}

fn collect_in(schema: &Value, path: &str, listed: bool, tables: &mut Tables) {
    if schema.is_object() {
        collect(schema, path, listed, tables);
    }
}
