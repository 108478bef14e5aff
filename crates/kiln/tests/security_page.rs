//! `docs/security.md` has the table of rights as the end-to-end tests try it.

#![allow(clippy::unwrap_used)]

#[path = "lab/rights_table.rs"]
#[allow(dead_code, reason = "the scenario uses more of it")]
mod rights_table;

use std::path::Path;

const BEGIN: &str =
    "<!-- rights: made from the code by `KILN_UPDATE=1 cargo test --workspace --test security_page` -->\n";
const END: &str = "<!-- end of rights -->\n";

#[test]
fn the_table_of_rights_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let wanted = rights_table::markdown();
    if std::env::var_os("KILN_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(table, wanted, "run `KILN_UPDATE=1 cargo test --workspace --test security_page`");
}

#[test]
fn every_cell_is_tried() {
    for row in rights_table::ROWS {
        assert!(row.cells.iter().all(|cell| !cell.tries.is_empty()), "{}", row.thing);
    }
}
