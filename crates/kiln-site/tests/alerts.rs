//! The alert rules, judged by Prometheus' own tool. `./dev test unit` has it; elsewhere `KILN_PROMTOOL` says where it is.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::Path;
use std::process::Command;

use kiln_site::services::monitoring::{DASHBOARDS, alert_rules};
use serde_json::{Value, json};

fn promtool() -> Command {
    Command::new(std::env::var_os("KILN_PROMTOOL").unwrap_or_else(|| "promtool".into()))
}

#[test]
fn every_rule_fires_when_it_should() {
    let text =
        "[cluster]\nname = \"x\"\n[cloud]\nkind = \"local\"\n[compute.x]\nnodes = \"x1\"\n[monitoring]\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let rules = alert_rules(&spec.monitoring.unwrap());
    let cases = include_str!("alerts/cases.yml");
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for name in names {
        assert!(cases.contains(&format!("alertname: {name}\n")), "no case has {name}");
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kiln.yml"), rules).unwrap();
    std::fs::write(dir.path().join("cases.yml"), cases).unwrap();
    accepts(dir.path(), &["check", "rules", "kiln.yml"]);
    accepts(dir.path(), &["test", "rules", "cases.yml"]);
}

/// What a panel asks for becomes a rule, which promtool reads.
#[test]
fn every_query_of_the_dashboards_is_one() {
    let mut rules = Vec::new();
    for (name, text) in DASHBOARDS {
        let dashboard: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        for panel in dashboard["panels"].as_array().unwrap() {
            assert_eq!(panel["datasource"]["uid"], "kiln", "{name}: {panel}");
            let queries = panel["targets"].as_array().unwrap().iter().map(|target| &target["expr"]);
            for query in queries {
                rules.push(json!({"record": format!("query_{}", rules.len()), "expr": query}));
            }
        }
    }
    assert!(rules.len() > 20, "{rules:?}");
    let rules = json!({"groups": [{"name": "dashboards", "rules": rules}]});
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rules.json"), rules.to_string()).unwrap();
    accepts(dir.path(), &["check", "rules", "rules.json"]);
}

fn accepts(dir: &Path, words: &[&str]) {
    let output = promtool().args(words).current_dir(dir).output();
    let output = output.expect("promtool runs: `./dev test unit` fetches it");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
