//! The examples in `docs/examples/` are right.

#![allow(clippy::unwrap_used)]

use std::path::Path;

#[test]
fn every_example_is_accepted_without_a_warning() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (_, warnings) = kiln_spec::parse_with_warnings(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        assert!(warnings.is_empty(), "{warnings}");
        seen += 1;
    }
    assert!(seen > 0);
}
