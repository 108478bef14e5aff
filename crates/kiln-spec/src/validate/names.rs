//! What names may look like, and which are taken.

use crate::diagnostic::Findings;
use crate::written::Text;

/// Words that mean something else to Slurm, to Kiln or to a node's own resolver, in any case.
const RESERVED: &[(&str, &str)] = &[
    ("all", "Slurm reads it as every node or partition"),
    ("default", "Slurm reads it as defaults for the lines that follow"),
    ("none", "Slurm and Kiln read it as an empty value"),
    ("localhost", "every node uses this name for itself"),
];

fn reserved(name: &str) -> Option<&'static str> {
    RESERVED.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|(_, why)| *why)
}

/// Reports a name that is taken by something else. `kind` is "node", "partition" or "group".
pub(crate) fn check_reserved(
    kind: &str,
    name: &str,
    at: std::ops::Range<usize>,
    findings: &mut Findings<'_>,
) -> bool {
    let Some(why) = reserved(name) else {
        return true;
    };
    (findings.error("reserved-name", at, format!("a {kind} cannot be named `{name}`: {why}")))
        .expected("another name");
    false
}

/// Names of groups, partitions and images: letters, digits, `-` and `_`, a letter first.
pub(crate) fn check_name(kind: &str, name: &Text, findings: &mut Findings<'_>) -> bool {
    let right = name.value.len() <= 63
        && name.value.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if !right {
        (findings.error(
            "bad-name",
            name.span.clone(),
            format!("`{}` cannot be the name of a {kind}", name.value),
        ))
        .expected("a letter, then letters, digits, `-` or `_`, at most 63");
    }
    right
}

/// Why a string cannot be a host name, if it cannot.
pub(crate) fn host_name_fault(name: &str) -> Option<&'static str> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > 63 {
        Some("1 to 63 characters")
    } else if !name.chars().all(letters) {
        Some("only letters, digits and `-`")
    } else if name.starts_with('-') || name.ends_with('-') {
        Some("a letter or digit at both ends")
    } else if name.bytes().all(|b| b.is_ascii_digit()) {
        Some("at least one letter, so that it is not read as an address")
    } else {
        None
    }
}

/// What the clouds take as the name of a node or a volume.
fn is_cloud_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&name.len())
        && name.starts_with(plain)
        && name.ends_with(plain)
        && name.chars().all(|c| plain(c) || c == '-')
}

/// "write it in lower case", for a name whose only fault is upper case.
pub(crate) fn in_lower_case(name: &str, is_right: impl Fn(&str) -> bool) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    is_right(&lower).then(|| format!("write it in lower case: \"{lower}\""))
}

pub(crate) fn check_volume_name(name: &Text, findings: &mut Findings<'_>) {
    if !is_cloud_name(&name.value) {
        let message = format!("`{}` cannot be the name of a volume", name.value);
        (findings.error("bad-name", name.span.clone(), message))
            .expected("lower-case letters, digits and `-`, a letter or digit at both ends, at most 63")
            .maybe_hint(in_lower_case(&name.value, is_cloud_name));
    }
}

fn is_cluster_name(name: &str) -> bool {
    name.len() <= 31 && is_cloud_name(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

pub(crate) fn check_cluster_name(name: &Text, findings: &mut Findings<'_>) {
    if !is_cluster_name(&name.value) {
        let message = format!("`{}` cannot be the name of a cluster", name.value);
        (findings.error("bad-name", name.span.clone(), message))
            .expected(
                "a lower-case letter, then lower-case letters, digits or `-`, no `-` at the end, at most 31",
            )
            .maybe_hint(in_lower_case(&name.value, is_cluster_name));
    }
}

pub(crate) fn check_domain(domain: &Text, findings: &mut Findings<'_>) {
    let right =
        domain.value.len() <= 190 && domain.value.split('.').all(|label| host_name_fault(label).is_none());
    if !right {
        (findings.error("bad-name", domain.span.clone(), format!("`{}` is not a DNS domain", domain.value)))
            .expected("names of letters, digits and `-` with dots between them, e.g. \"demo.internal\"");
    }
}

/// Names of Unix users and groups.
pub(crate) fn is_unix_name(name: &str) -> bool {
    name.len() <= 31
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
}

/// Values that end up in a line of a configuration file must stay on it.
pub(crate) fn check_one_line(what: &str, text: &Text, findings: &mut Findings<'_>) -> bool {
    let right = !text.value.trim().is_empty() && !text.value.contains(|c: char| c.is_control());
    if !right {
        (findings.error(
            "bad-value",
            text.span.clone(),
            format!("{what} is empty or has a line break or control character"),
        ))
        .expected("text on one line");
    }
    right
}
