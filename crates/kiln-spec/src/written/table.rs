//! Declares a table of the file once. Its struct, its reader, its JSON Schema and its rows in `docs/` all come from here.

/// Each key is `"key" => field: Type, RULE;`. The doc comment is the key's description. The rule is one of
///
/// | rule | field | when the key is absent |
/// | --- | --- | --- |
/// | none | `Option<Type>` | `None` |
/// | `otherwise "words"` | `Option<Type>` | `None`; a later stage decides, as the words say |
/// | `required` | `Option<Type>` | an error is reported |
/// | `default VALUE` | `Type` | the value, with the table's place in the file |
/// | `empty` | `Type` | an empty list or table |
macro_rules! table {
    (
        $(#[doc = $table_doc:literal])*
        $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:literal => $field:ident: $type:ty $(, $rule:ident $($value:expr)?)?;
            )*
        }
    ) => {
        $(#[doc = $table_doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            /// Where the table begins in the file.
            #[allow(dead_code, reason = "not every table is pointed at as a whole")]
            pub at: std::ops::Range<usize>,
            $( $(#[doc = $doc])* pub $field: $crate::written::table::field!($type $(, $rule)?), )*
        }

        impl $name {
            pub const KEYS: &[&str] = &[$($key),*];

            /// The table without any key, at a place in the file.
            fn empty_at(at: std::ops::Range<usize>) -> Self {
                Self {
                    $( $field: $crate::written::table::absent!($type, at $(, $rule $($value)?)?), )*
                    at,
                }
            }

            /// Reads the table. `known` are the keys that the user can choose from where one is unknown.
            #[allow(unused_variables, unused_mut, clippy::match_single_binding, reason = "a table may have no keys")]
            pub fn of_entries(
                source: &$crate::written::Source<'_>,
                entries: &[($crate::written::Text, $crate::written::Source<'_>)],
                known: &[&'static str],
                reader: &mut $crate::written::Reader<'_, '_>,
            ) -> Self {
                let mut table = Self::empty_at(source.span.clone());
                let mut seen: Vec<&str> = Vec::new();
                for (key, value) in entries {
                    match key.value.as_str() {
                        $( $key => {
                            seen.push($key);
                            let read = reader
                                .inside(&key.value, |reader| $crate::written::Written::read(value, reader));
                            $crate::written::table::store!(table.$field, read $(, $rule)?);
                        } )*
                        // A slip in a required key is one error, not two.
                        _ => seen.extend(reader.unknown_key(key, known)),
                    }
                }
                $(
                    if $crate::written::table::is_required!($($rule)?) && !seen.contains(&$key) {
                        reader.missing_key(source, &<$type as $crate::written::Written>::shown($key));
                    }
                )*
                table
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::empty_at(0..0)
            }
        }

        impl $crate::written::Written for $name {
            fn read(
                source: &$crate::written::Source<'_>,
                reader: &mut $crate::written::Reader<'_, '_>,
            ) -> Option<Self> {
                let entries = reader.entries(source)?;
                Some(Self::of_entries(source, &entries, Self::KEYS, reader))
            }

            fn schema() -> serde_json::Value {
                $crate::schema::table(&Self::keys(), concat!($($table_doc),*))
            }

            fn keys() -> Vec<$crate::written::Key> {
                vec![$(
                    $crate::written::Key {
                        name: $key,
                        doc: concat!($($doc),*).trim().to_owned(),
                        schema: <$type>::schema(),
                        absent: $crate::written::table::rule!($type $(, $rule $($value)?)?),
                        keys: <$type>::keys(),
                    },
                )*]
            }
        }
    };
}

/// The type of a key's field.
macro_rules! field {
    ($type:ty, default) => { $type };
    ($type:ty, empty) => { $type };
    ($type:ty $(, $rule:ident)?) => { Option<$type> };
}

/// The field of a key that is not in the file.
macro_rules! absent {
    ($type:ty, $at:ident, default $value:expr) => {
        <$type>::new($value.into(), $at.clone())
    };
    ($type:ty, $at:ident, empty) => {
        <$type>::default()
    };
    ($type:ty, $at:ident $(, $rule:ident $($value:expr)?)?) => {
        None
    };
}

/// Keeps what was read. A value that is not right was reported; its default takes its place.
macro_rules! store {
    ($field:expr, $read:ident, default) => {
        if let Some(value) = $read {
            $field = value
        }
    };
    ($field:expr, $read:ident, empty) => {
        if let Some(value) = $read {
            $field = value
        }
    };
    ($field:expr, $read:ident $(, $rule:ident)?) => {
        $field = $read
    };
}

macro_rules! is_required {
    (required) => {
        true
    };
    ($($rule:ident)?) => {
        false
    };
}

/// The rule as data.
macro_rules! rule {
    ($type:ty, required) => {
        $crate::written::Absent::IsAnError
    };
    ($type:ty, default $value:expr) => {
        $crate::written::Absent::Means(serde_json::json!($value))
    };
    ($type:ty, empty) => {
        $crate::written::Absent::Means($crate::schema::empty(&<$type>::schema()))
    };
    ($type:ty, otherwise $words:expr) => {
        $crate::written::Absent::Otherwise($words)
    };
    ($type:ty) => {
        $crate::written::Absent::Nothing
    };
}

pub(crate) use {absent, field, is_required, rule, store, table};
