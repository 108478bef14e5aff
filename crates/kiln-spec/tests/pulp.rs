//! Where the packages of a source come from that a Pulp server has snapshots of.

#![allow(clippy::unwrap_used)]

use kiln_spec::{Credentials, SNAPSHOTS_FILE, SourceSpec};

const HEAD: &str =
    "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.standard]\nnodes = \"n[0-1]\"\n";
const PULP: &str = "[pulp]\naddress = \"https://pulp.example.org/\"\n";

/// The source `a`, with this in its table and this in `snapshots.toml`.
fn try_source(table: &str, snapshots: Option<&str>) -> Result<SourceSpec, String> {
    let files = |path: &str| match snapshots {
        Some(text) if path == SNAPSHOTS_FILE => Ok(text.as_bytes().to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let text = format!("{HEAD}{PULP}[source.a]\nsuites = [\"bookworm\"]\n{table}\n");
    let spec = kiln_spec::parse_with_files(&text, "cluster.toml", &files);
    spec.map(|(spec, _)| spec.sources["a"].clone()).map_err(|found| found.to_string())
}

fn source(table: &str, snapshots: Option<&str>) -> SourceSpec {
    try_source(table, snapshots).unwrap_or_else(|e| panic!("{e}"))
}

const BOTH: &str =
    "pulp = \"debian/bookworm\"\naddress = \"http://mirror.example.org/debian\"\ncredentials = \"env:A\"";
const STAMPS: &str = "[snapshots]\na = \"20260101T000000Z\"\nanother = \"v1\"\n";

#[test]
fn a_stamp_pins() {
    let pinned = source(BOTH, Some(STAMPS));
    assert_eq!(pinned.address, "https://pulp.example.org/pulp/content/debian/bookworm/20260101T000000Z");
    assert_eq!(pinned.snapshot.as_deref(), Some("20260101T000000Z"));
    assert_eq!(pinned.credentials, Some(Credentials::Environment("A".into())));
    let pulp = pinned.pulp.unwrap();
    assert_eq!(pulp.upstream.as_deref(), Some("http://mirror.example.org/debian"));
    assert!(!pulp.fixed);
}

#[test]
fn without_a_stamp_packages_come_from_the_address_which_gets_no_password() {
    for snapshots in [None, Some(""), Some("[snapshots]\nanother = \"v1\"\n")] {
        let unpinned = source(BOTH, snapshots);
        assert_eq!(unpinned.address, "http://mirror.example.org/debian");
        assert_eq!((unpinned.snapshot, unpinned.credentials), (None, None));
    }
}

#[test]
fn the_cluster_files_own_word_counts_more() {
    let fixed = source(&format!("{BOTH}\nsnapshot = \"v7\""), Some(STAMPS));
    assert_eq!(fixed.address, "https://pulp.example.org/pulp/content/debian/bookworm/v7");
    assert!(fixed.pulp.unwrap().fixed);
}

#[test]
fn a_damaged_file_of_snapshots_is_not_taken_for_none() {
    let said = try_source(BOTH, Some("[snapshots]\na = 7\n")).unwrap_err();
    assert!(said.contains("snapshots.toml beside this file cannot be used"), "{said}");
    assert!(said.contains("`a` has no name of a snapshot"), "{said}");
    // Nobody needs it.
    let said = try_source("address = \"http://mirror.example.org/debian\"", Some("[snap"));
    assert!(said.is_ok());
}
