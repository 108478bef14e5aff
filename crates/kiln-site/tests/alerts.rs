//! The alert rules, judged by Prometheus' own tool. `./dev test unit` has it; elsewhere `KILN_PROMTOOL` says where it is.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::process::Command;

use kiln_site::services::monitoring::alert_rules;

fn promtool() -> Command {
    Command::new(std::env::var_os("KILN_PROMTOOL").unwrap_or_else(|| "promtool".into()))
}

#[test]
fn every_rule_fires_when_it_should() {
    let text = "[cluster]\nname = \"x\"\n[cloud]\nkind = \"local\"\n[compute.x]\nnodes = \"x1\"\n[monitoring]\n";
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
    for words in [["check", "rules", "kiln.yml"], ["test", "rules", "cases.yml"]] {
        let output = promtool().args(words).current_dir(dir.path()).output();
        let output = output.expect("promtool runs: `./dev test unit` fetches it");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}
