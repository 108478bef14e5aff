//! Declares a table of the file once: its struct, its reader and its schema.

/// `"key" => field: Type;` reads an optional key, `"key" => field: Type, required;` one that must be there.
/// The doc comments become the descriptions in the schema.
macro_rules! table {
    (
        $(#[doc = $table_doc:literal])*
        $name:ident {
            $( $(#[doc = $doc:literal])* $key:literal => $field:ident: $type:ty $(, $required:ident)?; )*
        }
    ) => {
        $(#[doc = $table_doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            /// Where the table begins in the file.
            #[allow(dead_code, reason = "not every table is pointed at as a whole")]
            pub at: std::ops::Range<usize>,
            $( $(#[doc = $doc])* pub $field: Option<$type>, )*
        }

        impl $crate::written::Written for $name {
            fn read(
                source: &$crate::written::Source<'_>,
                reader: &mut $crate::written::Reader<'_, '_>,
            ) -> Option<Self> {
                const KEYS: &[&str] = &[$($key),*];
                let entries = reader.entries(source)?;
                let mut table = Self { at: source.span.clone(), ..Self::default() };
                $( let mut $field = false; )*
                let mut meant: Vec<&str> = Vec::new();
                for (key, value) in &entries {
                    match key.value.as_str() {
                        $( $key => {
                            $field = true;
                            table.$field = reader.inside(&key.value, |reader| <$type>::read(value, reader));
                        } )*
                        _ => meant.extend(reader.unknown_key(key, KEYS)),
                    }
                }
                $( $( let _ = stringify!($required);
                    // A slip in a required key is one error, not two.
                    if !$field && !meant.contains(&$key) {
                        reader.missing_key(source, &<$type>::shown($key));
                    }
                 )? )*
                $( let _ = $field; )*
                Some(table)
            }

            fn schema() -> serde_json::Value {
                let mut properties = serde_json::Map::new();
                $( properties.insert(
                    $key.to_owned(),
                    $crate::schema::described(<$type>::schema(), concat!($($doc),*)),
                ); )*
                let required: &[&str] = &[$( $( { let _ = stringify!($required); $key }, )? )*];
                $crate::schema::table(&properties, required, concat!($($table_doc),*))
            }
        }
    };
}

pub(crate) use table;
