//! Types that tell their own JSON schema, so that the description of the API cannot differ from what is sent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Schemas by name, as far as they are known.
pub type Schemas = BTreeMap<String, Value>;

pub trait Described {
    /// A schema, or the reference to one that is now among `schemas`.
    fn schema(schemas: &mut Schemas) -> Value;
}

macro_rules! plain {
    ($($type:ty => $schema:tt),* $(,)?) => {
        $(impl Described for $type {
            fn schema(_: &mut Schemas) -> Value {
                json!($schema)
            }
        })*
    };
}

plain! {
    String => {"type": "string"},
    bool => {"type": "boolean"},
    u16 => {"type": "integer"},
    u32 => {"type": "integer"},
    u64 => {"type": "integer"},
    i64 => {"type": "integer"},
    usize => {"type": "integer"},
    Timestamp => {"type": "string", "format": "date-time"},
}

impl<T: Described> Described for Vec<T> {
    fn schema(schemas: &mut Schemas) -> Value {
        json!({"type": "array", "items": T::schema(schemas)})
    }
}

impl<T: Described> Described for BTreeMap<String, T> {
    fn schema(schemas: &mut Schemas) -> Value {
        json!({"type": "object", "additionalProperties": T::schema(schemas)})
    }
}

impl<T: Described> Described for Option<T> {
    fn schema(schemas: &mut Schemas) -> Value {
        let inner = T::schema(schemas);
        match inner.get("type").cloned() {
            Some(kind) => {
                let mut schema = inner;
                schema["type"] = json!([kind, "null"]);
                schema
            }
            None => json!({"oneOf": [inner, {"type": "null"}]}),
        }
    }
}

/// The words of a comment, on one line.
pub fn words(comment: &[&str]) -> String {
    comment.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Puts a named schema among the others, and refers to it.
pub fn named(schemas: &mut Schemas, name: &str, make: impl FnOnce(&mut Schemas) -> Value) -> Value {
    if !schemas.contains_key(name) {
        // A type that holds itself finds the place taken.
        schemas.insert(name.into(), Value::Null);
        let schema = make(schemas);
        schemas.insert(name.into(), schema);
    }
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A struct or an enum of words that is sent or received. Comments become descriptions.
macro_rules! described {
    ($(#[doc = $doc:literal])* pub struct $name:ident { $($(#[doc = $note:literal])* pub $field:ident: $type:ty,)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $name { $($(#[doc = $note])* pub $field: $type,)* }

        impl $crate::describe::Described for $name {
            fn schema(schemas: &mut $crate::describe::Schemas) -> serde_json::Value {
                $crate::describe::named(schemas, stringify!($name), |schemas| {
                    let mut properties = serde_json::Map::new();
                    $(
                        let mut schema = <$type as $crate::describe::Described>::schema(schemas);
                        let note = $crate::describe::words(&[$($note),*]);
                        if !note.is_empty() {
                            schema["description"] = note.into();
                        }
                        properties.insert(stringify!($field).into(), schema);
                    )*
                    serde_json::json!({
                        "type": "object",
                        "description": $crate::describe::words(&[$($doc),*]),
                        "properties": properties,
                        // Fields without a value are sent as null, so that all are there.
                        "required": [$(stringify!($field)),*],
                        "additionalProperties": false,
                    })
                })
            }
        }
    };
    ($(#[doc = $doc:literal])* pub enum $name:ident { $($(#[doc = $note:literal])* $variant:ident = $word:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[doc = $note])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl $crate::describe::Described for $name {
            fn schema(schemas: &mut $crate::describe::Schemas) -> serde_json::Value {
                $crate::describe::named(schemas, stringify!($name), |_| {
                    let mut text = $crate::describe::words(&[$($doc),*]);
                    $(
                        let note = $crate::describe::words(&[$($note),*]);
                        if !note.is_empty() {
                            text.push_str(&format!(" `{}`: {note}", $word));
                        }
                    )*
                    serde_json::json!({"type": "string", "description": text, "enum": [$($word),*]})
                })
            }
        }
    };
}
pub(crate) use described;

#[cfg(test)]
mod tests {
    use super::*;

    described! {
        /// A thing
        /// of two lines.
        pub struct Thing {
            /// Perhaps.
            pub part: Option<Kind>,
            pub parts: Vec<u32>,
        }
    }

    described! {
        /// A kind.
        pub enum Kind {
            /// Like this.
            Such = "such",
            So = "so",
        }
    }

    #[test]
    fn a_type_tells_its_schema() {
        let mut schemas = Schemas::new();
        assert_eq!(Thing::schema(&mut schemas), json!({"$ref": "#/components/schemas/Thing"}));
        let thing = &schemas["Thing"];
        assert_eq!(thing["description"], "A thing of two lines.");
        assert_eq!(thing["required"], json!(["part", "parts"]));
        assert_eq!(thing["properties"]["part"]["oneOf"][1], json!({"type": "null"}));
        assert_eq!(thing["properties"]["part"]["description"], "Perhaps.");
        assert_eq!(schemas["Kind"]["enum"], json!(["such", "so"]));
        assert_eq!(schemas["Kind"]["description"], "A kind. `such`: Like this.");
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.word()));
        }
    }
}
