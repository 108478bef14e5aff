//! The tables of keys in `docs/` are those of the code. `KILN_UPDATE=1 cargo test -p kiln-spec --test docs` renews them.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use kiln_spec::{key_table, key_table_paths};

const BEGIN: &str = "<!-- keys of ";
const BEGIN_END: &str = ", made from the code -->\n";
const END: &str = "<!-- end of keys -->\n";

/// The pages that have such tables.
const PAGES: [&str; 1] = ["cluster-file.md"];

#[test]
fn the_tables_of_keys_are_current() {
    let mut shown = String::new();
    for name in PAGES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let page = std::fs::read_to_string(&path).unwrap();
        let wanted = renewed(&page);
        if std::env::var_os("KILN_UPDATE").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        } else {
            assert_eq!(page, wanted, "run `KILN_UPDATE=1 cargo test -p kiln-spec --test docs`");
        }
        shown += &wanted;
    }
    // Several tables may have the same keys, as those of the three roles; one place is enough for them.
    // `role` only holds the tables of the three roles.
    for path in key_table_paths().iter().filter(|path| *path != "role") {
        let table = key_table(path).unwrap();
        assert!(shown.contains(&table), "no page has `{BEGIN}{path}{BEGIN_END}`:\n{table}");
    }
}

/// The page with what is between its markers replaced.
fn renewed(page: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("the page has tables of keys");
    let table = |piece: &str| {
        let (path, rest) = piece.split_once(BEGIN_END).expect("the marker names a table");
        let (_, after) = rest.split_once(END).expect("every table of keys has an end");
        let table = key_table(path).unwrap_or_else(|| panic!("the file has no table {path}"));
        format!("{BEGIN}{path}{BEGIN_END}{table}{END}{after}")
    };
    before.to_owned() + &rest.split(BEGIN).map(table).collect::<String>()
}
