//! The file as the user wrote it: every value typed, none of them checked against another, each with its
//! place in the file. The tables here are the only list of `cluster.toml`'s keys; the reader and the JSON
//! Schema both come from it.

mod macros;
mod places;
mod reader;
mod tables;
mod values;

pub(crate) use reader::{Reader, Source};
pub(crate) use tables::*;
pub(crate) use values::{At, List, Named, Scalar, Text};

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
}
