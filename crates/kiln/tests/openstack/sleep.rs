//! A cluster that sleeps: its servers are off, and what they had is there.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::lab::{Lab, openstack};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-1]\"\nflavor = \"tiny\"\n";

/// Nothing boots here, so this fake stands in for `ssh` to a control node without jobs, whose nodes have just booted.
const FAKE_SSH: &str = r#"#!/bin/sh
case "$*" in
*"date +%s"*) date +%s ;;
*"node backup now"*) echo '{"name":"20261116-200000","path":"/srv/kiln/backup/20261116-200000","bytes":1}' ;;
*"show node"*)
    for node in standard-0 standard-1; do echo "NodeName=$node State=IDLE BootTime=2099-01-01T00:00:00"; done ;;
*"fleet list"*) echo '[]' ;;
*) ;;
esac
"#;

/// State of every server, by name.
fn servers() -> Vec<(String, String)> {
    let rows = openstack(&["server list --tags kiln_cluster=sleeper"]).remove(0);
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_string();
    let mut rows: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| (text(row, "Name"), text(row, "Status"))).collect();
    rows.sort();
    rows
}

/// Ids of servers, volumes with who has them, and ports with their addresses.
fn belongings() -> Vec<String> {
    let lists = ["server list --tags kiln_cluster=sleeper", "volume list", "port list", "floating ip list"];
    let mut all = Vec::new();
    for (list, rows) in lists.iter().zip(openstack(&lists)) {
        for row in rows.as_array().unwrap() {
            let field = |key: &str| row.get(key).map(Value::to_string).unwrap_or_default();
            let fields = ["ID", "Name", "Fixed IP Addresses", "Attached to", "Port"].map(field);
            all.push(format!("{list}: {}", fields.join(" ")));
        }
    }
    all.sort();
    all
}

fn all_are(state: &str) -> Vec<(String, String)> {
    ["control", "login-0", "standard-0", "standard-1"]
        .map(|name| (name.to_string(), state.to_string()))
        .into()
}

#[test]
fn a_cluster_sleeps_and_wakes_up() {
    let mut lab = Lab::new("sleeper", GROUPS);
    lab.kiln(&["apply"]);
    assert_eq!(servers(), all_are("ACTIVE"));
    let had = belongings();

    let dir = lab.path("bin");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("ssh"), FAKE_SSH).unwrap();
    std::fs::set_permissions(dir.join("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    lab.environment.push(("PATH".into(), path));

    lab.kiln(&["stop", "--yes"]);
    assert_eq!(servers(), all_are("SHUTOFF"));
    assert_eq!(belongings(), had);
    assert!(lab.refused(&["apply", "--yes"]).starts_with("error: cluster sleeper is asleep since 20"));
    assert_eq!(servers(), all_are("SHUTOFF"));

    lab.kiln(&["start"]);
    assert_eq!(servers(), all_are("ACTIVE"));
    assert_eq!(belongings(), had);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));

    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
