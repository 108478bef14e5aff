//! `docs/api.md` describes the API as the code has it.

#![allow(clippy::unwrap_used)]

use std::path::Path;

const BEGIN: &str =
    "<!-- api: made from the code by `KILN_UPDATE=1 cargo test -p kiln-web --test api_page` -->\n";

#[test]
fn the_description_of_the_api_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, description) = page.split_once(BEGIN).unwrap();
    let wanted = kiln_web::markdown();
    if std::env::var_os("KILN_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}")).unwrap();
        return;
    }
    assert_eq!(description, wanted, "run `KILN_UPDATE=1 cargo test -p kiln-web --test api_page`");
}
