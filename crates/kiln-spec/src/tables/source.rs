//! `[source.NAME]`: a repository that packages come from while an image is built.

use std::collections::BTreeMap;

use crate::diagnostic::Findings;
use crate::parse::Files;
use crate::validate::names;
use crate::written::table::table;
use crate::written::{At, List, Named, Text};
use crate::{Credentials, SYSTEM_SOURCES, SigningKey, SourceSpec};

table! {
    /// A repository of packages, for images that name it in `sources`.
    SourceTable {
        /// URL of the repository, without user and password.
        "address" => address: Text, required;
        /// Names a state of the repository that does not change, such as `20260101T000000Z`. It takes the place of `{snapshot}` in the address, or is appended to it. What is in the snapshot may be older than its stated validity.
        "snapshot" => snapshot: Text;
        /// Suites, such as `bookworm` and `bookworm-updates`.
        "suites" => suites: List<Text>, otherwise "none: packages are at the address itself (a flat repository)";
        /// Components of the suites.
        "components" => components: List<Text>, otherwise "`main`";
        /// File with the public key that the repository is signed with, in OpenPGP format (`.asc` or `.gpg`), relative to the cluster file. It is trusted for this repository alone.
        "key" => key: Text, otherwise "the keys that the source image trusts";
        /// Where user and password are, as `USER:PASSWORD`: `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. They are on the build instance during the build and never in an image.
        "credentials" => credentials: Text, otherwise "none are needed";
        /// Whether nodes keep the repository. Not possible with `credentials`.
        "keep" => keep: At<bool>, default false;
    }
}

pub(crate) fn validate(
    written: &Named<SourceTable>,
    files: Files<'_>,
    findings: &mut Findings<'_>,
) -> BTreeMap<String, SourceSpec> {
    for (name, _) in written {
        names::check_name("source", name, findings);
        if name.value == SYSTEM_SOURCES {
            let message = format!(
                "a source cannot be named `{SYSTEM_SOURCES}`: that means the repositories of the source image"
            );
            findings.error("reserved-name", name.span.clone(), message).expected("another name");
        }
    }
    let one = |(name, table): &(Text, SourceTable)| {
        Some((name.value.clone(), source(name, table, files, findings)?))
    };
    written.iter().filter_map(one).collect()
}

fn source(
    name: &Text,
    table: &SourceTable,
    files: Files<'_>,
    findings: &mut Findings<'_>,
) -> Option<SourceSpec> {
    let suites = words("suite", table.suites.as_ref(), findings);
    let mut components = words("component", table.components.as_ref(), findings);
    if suites.is_empty()
        && let Some(written) = &table.components
    {
        let message = "components without `suites`: a flat repository has none";
        findings.error("bad-source", written.span.clone(), message).expected("`suites = [...]`");
    } else if table.components.is_none() && !suites.is_empty() {
        components.push("main".to_string());
    }
    let credentials = table.credentials.as_ref().and_then(|text| credentials(text, findings));
    if let (true, Some(credentials)) = (table.keep.value, &table.credentials) {
        let message = format!("nodes cannot keep source `{}`: they have no credentials for it", name.value);
        (findings.error("bad-source", table.keep.span.clone(), message))
            .expected("`keep = false`")
            .related(credentials.span.clone(), "needed here");
    }
    if let Some(stamp) = table.snapshot.as_ref().filter(|stamp| !is_word(&stamp.value)) {
        let message = format!("`{}` is not the name of a snapshot", stamp.value);
        (findings.error("bad-snapshot", stamp.span.clone(), message))
            .expected("letters, digits, `.`, `_` and `-`, such as \"20260101T000000Z\"");
    }
    let snapshot = table.snapshot.as_ref().map(|stamp| stamp.value.clone());
    Some(SourceSpec {
        name: name.value.clone(),
        address: address(table.address.as_ref()?, snapshot.as_deref(), findings),
        snapshot,
        suites,
        components,
        key: table.key.as_ref().and_then(|path| key(path, files, findings)),
        credentials,
        keep: table.keep.value,
    })
}

const PLACE: &str = "{snapshot}";

/// With the snapshot where it belongs.
fn address(written: &Text, snapshot: Option<&str>, findings: &mut Findings<'_>) -> String {
    let text = &written.value;
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let right = !host.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '"');
    if host.contains('@') {
        (findings.error(
            "bad-url",
            written.span.clone(),
            "a source's address cannot have a user or password",
        ))
        .expected("the address without them")
        .hint("`credentials = \"env:NAME\"` names an environment variable that has them");
    } else if !right {
        (findings.error("bad-url", written.span.clone(), format!("`{text}` is not the URL of a repository")))
            .expected("a URL such as \"http://mirror.example.org/debian\"");
    }
    match snapshot {
        Some(stamp) if text.contains(PLACE) => text.replace(PLACE, stamp),
        Some(stamp) => format!("{}/{stamp}", text.trim_end_matches('/')),
        None => {
            if text.contains(PLACE) {
                let message = format!("the address has {PLACE}, and the source has no `snapshot`");
                findings.error("missing-key", written.span.clone(), message).expected("`snapshot = \"...\"`");
            }
            text.clone()
        }
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// Suites may have a slash in them.
fn words(kind: &str, written: Option<&List<Text>>, findings: &mut Findings<'_>) -> Vec<String> {
    let list = written.map(|list| list.value.as_slice()).unwrap_or_default();
    for word in list.iter().filter(|word| !word.value.split('/').all(is_word)) {
        let message = format!("`{}` is not the name of a {kind}", word.value);
        (findings.error("bad-source", word.span.clone(), message))
            .expected("letters, digits, `.`, `_` and `-`, such as \"bookworm-updates\"");
    }
    list.iter().map(|word| word.value.clone()).collect()
}

fn credentials(written: &Text, findings: &mut Findings<'_>) -> Option<Credentials> {
    let variable = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match written.value.split_once(':') {
        Some(("env", name)) if variable(name) => Some(Credentials::Environment(name.to_string())),
        Some(("file", path)) if !path.trim().is_empty() => Some(Credentials::File(path.to_string())),
        // What was written may be the password itself, and is not repeated.
        _ => {
            (findings.error(
                "bad-credentials",
                written.span.clone(),
                "the file cannot have credentials itself",
            ))
            .expected("\"env:NAME\" for an environment variable, or \"file:PATH\"");
            None
        }
    }
}

fn key(path: &Text, files: Files<'_>, findings: &mut Findings<'_>) -> Option<SigningKey> {
    let fault = match files(&path.value) {
        Ok(content) if is_public_key(&content) => {
            return Some(SigningKey { path: path.value.clone(), content });
        }
        Ok(content) if content.windows(PRIVATE.len()).any(|part| part == PRIVATE) => {
            "it has a private key".to_string()
        }
        Ok(_) => "it has no OpenPGP public key".to_string(),
        Err(error) => error.to_string(),
    };
    let message = format!("the key `{}` cannot be used: {fault}", path.value);
    (findings.error("bad-key", path.span.clone(), message))
        .expected("a file with an OpenPGP public key, relative to the cluster file");
    None
}

const PRIVATE: &[u8] = b"-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// Armored, or in binary: the first packet is a public key, in the old or the new format of packets.
fn is_public_key(content: &[u8]) -> bool {
    let armored = b"-----BEGIN PGP PUBLIC KEY BLOCK-----";
    let has = |what: &[u8]| content.windows(what.len()).any(|part| part == what);
    match content.first() {
        Some(0x98..=0x9b | 0xc6) => true,
        _ => has(armored) && !has(PRIVATE),
    }
}
