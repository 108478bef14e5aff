//! The file as the user wrote it: every value typed, none of them checked against another, each with its
//! place in the file. The tables of `crate::tables` are the only list of `cluster.toml`'s keys; the reader, the
//! JSON Schema and the tables of keys in `docs/` all come from it.

mod places;
mod reader;
pub(crate) mod table;
mod values;

pub(crate) use reader::{Reader, Shape, Source};
pub(crate) use values::{At, Choice, List, Named, Scalar, Text};

/// A type of value that can stand in the file.
pub(crate) trait Written: Sized {
    /// Reads the value, or reports why it cannot be one.
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self>;

    /// How a key of this type is shown where it is missing.
    fn shown(key: &str) -> String {
        key.to_owned()
    }

    /// Its JSON Schema.
    fn schema() -> serde_json::Value;

    /// The keys of the table that it is, or of the tables that it holds.
    fn keys() -> Vec<Key> {
        Vec::new()
    }
}

/// One key of a table, for the schema and the documentation.
pub(crate) struct Key {
    pub name: &'static str,
    pub doc: String,
    /// Of its value.
    pub schema: serde_json::Value,
    pub absent: Absent,
    /// If its value is a table, or several.
    pub keys: Vec<Key>,
}

/// What it means that a key is not in the file.
pub(crate) enum Absent {
    IsAnError,
    /// The same as this value.
    Means(serde_json::Value),
    /// Something that depends on the rest of the file or on the cloud, in words.
    Otherwise(&'static str),
    /// There is no such thing.
    Nothing,
}
