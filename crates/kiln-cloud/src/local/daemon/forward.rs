//! Hosts that forward nothing by default, as Docker and most firewalls leave them: a rule of our own table
//! cannot overrule the drop of another's, so ours go into the chains that drop, marked with a comment, and
//! leave with the networks.

use std::fmt::Write as _;

use crate::Result;
use crate::local::exec;

/// Lets the bridges' traffic through every forwarding chain that drops by default. Rules with the same
/// mark for other bridges go.
pub fn allow(bridges: &[String], mark: &str) -> Result<()> {
    let ruleset = exec::run("nft", &["-a", "list", "ruleset"], "")?;
    let script = script(&parse(&ruleset, mark), bridges, mark);
    if script.is_empty() { Ok(()) } else { exec::nft(&script) }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Chains on the forward hook with policy drop, as `family table chain`.
    dropping: Vec<String>,
    /// Rules with our mark: chain and handle.
    ours: Vec<(String, String)>,
}

fn parse(ruleset: &str, mark: &str) -> Found {
    let comment = format!("comment \"{mark}\"");
    let mut found = Found::default();
    let (mut table, mut chain) = (String::new(), String::new());
    for line in ruleset.lines().map(str::trim) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["table", family @ ("ip" | "inet"), name, "{", ..] => table = format!("{family} {name}"),
            ["table", ..] => table.clear(),
            ["chain", name, "{", ..] => chain = format!("{table} {name}"),
            _ if table.is_empty() => {}
            ["type", "filter", "hook", "forward", ..] if line.contains("policy drop;") => {
                found.dropping.push(chain.clone());
            }
            [.., "#", "handle", handle] if line.contains(&comment) => {
                found.ours.push((chain.clone(), (*handle).to_string()));
            }
            _ => {}
        }
    }
    found
}

fn script(found: &Found, bridges: &[String], mark: &str) -> String {
    let mut script = String::new();
    for (chain, handle) in &found.ours {
        let _ = writeln!(script, "delete rule {chain} handle {handle}");
    }
    for chain in &found.dropping {
        for bridge in bridges {
            let _ = writeln!(script, "insert rule {chain} iifname \"{bridge}\" accept comment \"{mark}\"");
            let _ = writeln!(
                script,
                "insert rule {chain} oifname \"{bridge}\" ct state established,related accept comment \"{mark}\""
            );
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULESET: &str = "table ip kiln-x { # handle 1\n\tchain forward { # handle 1\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n\
        table ip filter { # handle 2\n\tchain FORWARD { # handle 1\n\t\ttype filter hook forward priority filter; policy drop;\n\
        \t\tiifname \"kbold\" accept comment \"kiln-x\" # handle 7\n\t\tcounter packets 0 bytes 0 jump DOCKER-USER # handle 9\n\t}\n\
        \tchain INPUT { # handle 3\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n\
        table ip6 filter { # handle 3\n\tchain FORWARD { # handle 1\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n}\n";

    #[test]
    fn chains_that_drop_are_found() {
        let found = parse(RULESET, "kiln-x");
        assert_eq!(found.dropping, ["ip filter FORWARD"]);
        assert_eq!(found.ours, [("ip filter FORWARD".to_string(), "7".to_string())]);
    }

    #[test]
    fn our_rules_follow_the_bridges() {
        let found = parse(RULESET, "kiln-x");
        let text = script(&found, &["kbnew".to_string()], "kiln-x");
        assert!(text.starts_with(
            "delete rule ip filter FORWARD handle 7\ninsert rule ip filter FORWARD iifname \"kbnew\" accept"
        ));
        assert_eq!(script(&found, &[], "kiln-x"), "delete rule ip filter FORWARD handle 7\n");
        assert_eq!(script(&Found::default(), &["kb".to_string()], "kiln-x"), "");
    }
}
