//! The file `kiln init` writes.

use kiln_spec::{Role, parse, parse_with_warnings, template};

#[test]
fn the_template_is_the_example_cluster() {
    let (spec, warnings) =
        parse_with_warnings(&template("demo"), "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    assert!(warnings.is_empty(), "{warnings}");
    let nodes: Vec<&str> = spec.nodes().map(|node| node.name).collect();
    assert_eq!(nodes, ["control", "login-0", "standard-0", "standard-1", "extra-0", "extra-1"]);
    assert_eq!(spec.nodes().filter(|node| node.role == Role::Compute).count(), 4);
    let partitions: Vec<(&str, bool)> =
        spec.partitions.iter().map(|p| (p.name.as_str(), p.default)).collect();
    assert_eq!(partitions, [("standard", true), ("extra", false)]);
    assert_eq!(spec.rebuild[0].groups, ["standard", "extra"]);
    assert_eq!((spec.users[0].name.as_str(), spec.users[0].uid), ("demo", 2001));
}

/// An option whose table is shown as an option too would land in the table before.
#[test]
fn tables_that_are_options_say_so() {
    let text = template("demo");
    let mut above = "";
    for line in text.lines() {
        if line.starts_with("# [") {
            assert!(above.to_lowercase().contains("uncomment the table line too"), "{line}");
        }
        above = line;
    }
}

/// Whoever takes the `#` off an option must get a file that parses. (`home` is shown three ways.)
#[test]
fn the_options_shown_are_right() {
    let ssh_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5H4qOYcgAdZgHuEXeN5Vz5KJV6hLh0xCRfpM0T5Bdr demo";
    let mut text = String::new();
    for line in template("demo").replace("ssh-ed25519 AAAA... demo", ssh_key).lines() {
        let key =
            |rest: &str| rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ') && key != "home");
        let option = line.strip_prefix("# ").filter(|rest| rest.starts_with('[') || key(rest));
        text.push_str(option.unwrap_or(line));
        text.push('\n');
    }
    let spec = parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(spec.images.len(), 2);
    assert_eq!(spec.roles.login.files.len(), 1);
    assert_eq!(spec.slurm.config.len(), 2);
}
