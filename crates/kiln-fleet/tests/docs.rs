//! `docs/reconcile.md` has the rules as the code has them.

#![allow(clippy::unwrap_used)]

use std::path::Path;

const BEGIN: &str =
    "<!-- rules: made from the code by `KILN_UPDATE=1 cargo test -p kiln-fleet --test docs` -->\n";
const END: &str = "<!-- end of rules -->\n";

#[test]
fn the_table_of_rules_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reconcile.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let wanted = kiln_fleet::reconcile::table();
    if std::env::var_os("KILN_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(table, wanted, "run `KILN_UPDATE=1 cargo test -p kiln-fleet --test docs`");
}
