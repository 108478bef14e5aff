//! Network switches.

use crate::diagnostic::Findings;
use crate::written::Text;

/// As long as Slurm takes it.
const LONGEST: usize = 64;

/// From the topmost down to the one that the nodes are connected to.
pub(crate) fn path(written: &Text, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = |name: &&str| (1..=LONGEST).contains(&name.len()) && name.chars().all(is_plain);
    let names: Vec<&str> = written.value.split('/').collect();
    let twice = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
    if !names.iter().all(is_name) || twice {
        let message = format!("`{}` does not name a switch", written.value);
        (findings.error("bad-name", written.span.clone(), message)).expected(
            "letters, digits, `_`, `-` and `.`, at most 64; with those above it, `/` between them: \"core/rack-1\"",
        );
        return None;
    }
    Some(names.into_iter().map(String::from).collect())
}
