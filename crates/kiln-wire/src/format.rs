//! The version that every format carries, and the one way to write and to read a format.
//!
//! A field that is added with a default needs no new version; one that changes its meaning does.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The field `format` of a format whose present version is `CURRENT`. Where it is absent, the text was written before
/// there were versions, and has version 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Version<const CURRENT: u32>;

impl<const CURRENT: u32> Serialize for Version<CURRENT> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(CURRENT)
    }
}

impl<'de, const CURRENT: u32> Deserialize<'de> for Version<CURRENT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = u32::deserialize(deserializer)?;
        if found > CURRENT {
            return Err(D::Error::custom(format!("format {found} is newer than {CURRENT}")));
        }
        Ok(Version)
    }
}

/// What is read from another host or from a disk.
pub trait Format: Serialize + DeserializeOwned {
    /// What messages call it: `bundle`, `fleet file`.
    const NAME: &'static str;
    const VERSION: u32;

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    fn from_json(json: &[u8]) -> Result<Self, ReadError> {
        serde_json::from_slice(json).map_err(|error| ReadError::new::<Self>(json, &error))
    }

    /// The version that a text claims to have, if it can be read that far.
    fn version_of(json: &[u8]) -> Option<u32> {
        serde_json::from_slice::<Only>(json).ok().map(|only| only.format)
    }
}

/// Says where the problem is and never quotes what is there: many formats hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(
        "this {name} was written by a newer kiln (format {found}; the kiln on this host reads up to {known}): \
         upgrade kiln on this host"
    )]
    Newer { name: &'static str, found: u32, known: u32 },
    #[error("this is not a {name}: line {line}, column {column}: a value is missing or of the wrong kind")]
    Data { name: &'static str, line: usize, column: usize },
    #[error("this is not a {name}: line {line}, column {column}: not JSON")]
    Syntax { name: &'static str, line: usize, column: usize },
}

impl ReadError {
    fn new<T: Format>(json: &[u8], error: &serde_json::Error) -> Self {
        let (name, known, line, column) = (T::NAME, T::VERSION, error.line(), error.column());
        match T::version_of(json) {
            Some(found) if found > known => ReadError::Newer { name, found, known },
            _ if error.is_data() => ReadError::Data { name, line, column },
            _ => ReadError::Syntax { name, line, column },
        }
    }
}

/// All that every version of every format has.
#[derive(Deserialize)]
struct Only {
    #[serde(default)]
    format: u32,
}

/// A list is as new as the newest item.
impl<T: Format> Format for Vec<T> {
    const NAME: &'static str = T::NAME;
    const VERSION: u32 = T::VERSION;

    fn version_of(json: &[u8]) -> Option<u32> {
        serde_json::from_slice::<Vec<Only>>(json).ok()?.into_iter().map(|only| only.format).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        #[serde(default)]
        format: Version<2>,
        secret: String,
    }

    impl Format for Note {
        const NAME: &'static str = "note";
        const VERSION: u32 = 2;
    }

    #[test]
    fn the_version_is_written_and_older_ones_are_read() {
        let note = Note { format: Version, secret: "x".into() };
        let json = note.to_json().unwrap();
        assert_eq!(json, br#"{"format":2,"secret":"x"}"#);
        for text in [&json[..], br#"{"secret":"x"}"#, br#"{"format":1,"secret":"x","more":[1]}"#] {
            assert_eq!(Note::from_json(text).unwrap(), note);
        }
    }

    #[test]
    fn a_newer_version_is_refused_whatever_else_it_says() {
        for text in [r#"{"format":3,"secret":"x"}"#, r#"{"secrets":["x"],"format":3}"#] {
            let error = Note::from_json(text.as_bytes()).unwrap_err();
            assert_eq!(error, ReadError::Newer { name: "note", found: 3, known: 2 });
            assert!(error.to_string().ends_with("upgrade kiln on this host"), "{error}");
        }
        let list = br#"[{"secret":"x"},{"format":3}]"#;
        assert!(matches!(Vec::<Note>::from_json(list), Err(ReadError::Newer { found: 3, .. })));
    }

    #[test]
    fn an_error_quotes_nothing() {
        for text in ["{\n\"secret\":[\"s3cret\"]}", "{\n\"secret\":s3cret}"] {
            let error = Note::from_json(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("line 2") && !error.to_string().contains("s3cret"), "{error}");
        }
    }
}
