//! `[source.NAME]`: a repository that packages come from while an image is built.

use std::collections::BTreeMap;

use crate::diagnostic::Findings;
use crate::parse::Files;
use crate::snapshots::is_stamp;
use crate::validate::names;
use crate::written::table::table;
use crate::written::{At, List, Named, Text};
use crate::{
    Credentials, PulpSource, PulpSpec, SNAPSHOTS_FILE, SYSTEM_SOURCES, SigningKey, Snapshots, SourceSpec,
};

table! {
    /// A repository of packages, for images that name it in `sources`.
    SourceTable {
        /// URL of the repository, without user and password. With `pulp`: what the server fetches it from.
        "address" => address: Text, otherwise "required without `pulp`";
        /// Names a state of the repository that does not change, such as `20260101T000000Z`. It takes the place of `{snapshot}` in the address, or is appended to it. What is in the snapshot may be older than its stated validity.
        "snapshot" => snapshot: Text;
        /// Path of the repository on the server of `[pulp]`, such as `debian/bookworm`. Packages come from the snapshot of it that `snapshot` or `snapshots.toml` names, else from the address. `kiln image sync` makes snapshots.
        "pulp" => pulp: Text, otherwise "not on a Pulp server";
        /// Suites, such as `bookworm` and `bookworm-updates`.
        "suites" => suites: List<Text>, otherwise "none: packages are at the address itself (a flat repository)";
        /// Components of the suites.
        "components" => components: List<Text>, otherwise "`main`";
        /// File with the public key that the repository is signed with, in OpenPGP format (`.asc` or `.gpg`), relative to the cluster file. It is trusted for this repository alone.
        "key" => key: Text, otherwise "the keys that the source image trusts";
        /// Where user and password are, as `USER:PASSWORD`: `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. They are on the build instance during the build and never in an image. With `pulp` they are for the server's packages.
        "credentials" => credentials: Text, otherwise "none are needed";
        /// Whether nodes keep the repository. Not possible with `credentials`.
        "keep" => keep: At<bool>, default false;
    }
}

pub(crate) fn validate(
    written: &Named<SourceTable>,
    pulp: Option<&PulpSpec>,
    files: Files<'_>,
    findings: &mut Findings<'_>,
) -> BTreeMap<String, SourceSpec> {
    let stamps = stamps(written, files, findings);
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
        Some((name.value.clone(), source(name, table, pulp, &stamps, files, findings)?))
    };
    written.iter().filter_map(one).collect()
}

fn source(
    name: &Text,
    table: &SourceTable,
    pulp: Option<&PulpSpec>,
    stamps: &Snapshots,
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
    if let Some(stamp) = table.snapshot.as_ref().filter(|stamp| !is_stamp(&stamp.value)) {
        let message = format!("`{}` is not the name of a snapshot", stamp.value);
        (findings.error("bad-snapshot", stamp.span.clone(), message))
            .expected("letters, digits, `.`, `_` and `-`, such as \"20260101T000000Z\"");
    }
    let mut snapshot = table.snapshot.as_ref().map(|stamp| stamp.value.clone());
    let (address, on_pulp) = match &table.pulp {
        None => {
            let Some(written) = &table.address else {
                let message = format!("source `{}` has no `address`", name.value);
                findings.error("missing-key", name.span.clone(), message).expected("`address = \"...\"`");
                return None;
            };
            (address(written, snapshot.as_deref(), findings), None)
        }
        Some(path) => {
            let fixed = snapshot.is_some();
            snapshot = snapshot.or_else(|| stamps.0.get(&name.value).cloned());
            on_pulp(table.address.as_ref(), path, snapshot.as_deref(), fixed, pulp, findings)?
        }
    };
    // They are for the server, and nobody else's business.
    let is_upstream =
        on_pulp.as_ref().is_some_and(|on_pulp: &PulpSource| on_pulp.upstream.as_ref() == Some(&address));
    let credentials = credentials.filter(|_| !is_upstream);
    Some(SourceSpec {
        name: name.value.clone(),
        address,
        snapshot,
        pulp: on_pulp,
        suites,
        components,
        key: table.key.as_ref().and_then(|path| key(path, files, findings)),
        credentials,
        keep: table.keep.value,
    })
}

/// What `snapshots.toml` says, which is read only where a source needs it.
fn stamps(written: &Named<SourceTable>, files: Files<'_>, findings: &mut Findings<'_>) -> Snapshots {
    let Some(needed) = written.iter().find_map(|(_, table)| table.pulp.as_ref()) else {
        return Snapshots::default();
    };
    let read = match files(SNAPSHOTS_FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Snapshots::default(),
        Err(error) => Err(error.to_string()),
        Ok(content) => String::from_utf8(content)
            .map_err(|_| "it is not text".to_string())
            .and_then(|text| Snapshots::read(&text)),
    };
    read.unwrap_or_else(|why| {
        let message = format!("{SNAPSHOTS_FILE} beside this file cannot be used: {why}");
        (findings.error("bad-snapshots", needed.span.clone(), message))
            .expected("a file that `kiln image sync` wrote")
            .hint("get it back from your version control, or delete it and run `kiln image sync`");
        Snapshots::default()
    })
}

/// The address that packages come from, and where the snapshots are.
fn on_pulp(
    upstream: Option<&Text>,
    path: &Text,
    stamp: Option<&str>,
    fixed: bool,
    pulp: Option<&PulpSpec>,
    findings: &mut Findings<'_>,
) -> Option<(String, Option<PulpSource>)> {
    let place = path.value.trim_matches('/');
    if !place.split('/').all(is_stamp) {
        let message = format!("`{}` is not a path on a Pulp server", path.value);
        (findings.error("bad-source", path.span.clone(), message))
            .expected("letters, digits, `.`, `_`, `-` and `/`, such as \"debian/bookworm\"");
    }
    if let Some(written) = upstream {
        check_url(written, Place::Source, findings);
        if written.value.contains(PLACE) {
            let message = format!("the address has {PLACE}, and snapshots are on the Pulp server");
            findings.error("bad-source", written.span.clone(), message).expected("the address without it");
        }
    }
    let Some(pulp) = pulp else {
        let message = "there is no Pulp server";
        (findings.error("missing-key", path.span.clone(), message))
            .expected("a table `[pulp]` with its address, or no `pulp` here");
        return None;
    };
    let upstream = upstream.map(|written| written.value.clone());
    let address = match (stamp, &upstream) {
        (Some(stamp), _) => format!("{}/{place}/{stamp}", pulp.content),
        (None, Some(upstream)) => upstream.clone(),
        (None, None) => format!("{}/{place}", pulp.content),
    };
    Some((address, Some(PulpSource { path: place.to_string(), upstream, fixed })))
}

const PLACE: &str = "{snapshot}";

/// With the snapshot where it belongs.
fn address(written: &Text, snapshot: Option<&str>, findings: &mut Findings<'_>) -> String {
    check_url(written, Place::Source, findings);
    let text = &written.value;
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

/// What an address is of: its words, and an example.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Source,
    Pulp,
    Webhook,
}

pub(crate) fn check_url(written: &Text, of: Place, findings: &mut Findings<'_>) {
    let (whose, what, example) = match of {
        Place::Source => ("a source's", "repository", "http://mirror.example.org/debian"),
        Place::Pulp => ("a server's", "Pulp server", "https://pulp.example.org"),
        Place::Webhook => ("a webhook's", "webhook", "https://alerts.example.org/kiln"),
    };
    let elsewhere = match of {
        Place::Source | Place::Pulp => {
            "`credentials = \"env:NAME\"` names an environment variable that has them"
        }
        Place::Webhook => "`address = \"env:NAME\"` names an environment variable that has the whole URL",
    };
    let text = &written.value;
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let right = !host.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '"');
    if host.contains('@') {
        let message = format!("{whose} address cannot have a user or password");
        (findings.error("bad-url", written.span.clone(), message))
            .expected("the address without them")
            .hint(elsewhere);
    } else if !right {
        (findings.error("bad-url", written.span.clone(), format!("`{text}` is not the URL of a {what}")))
            .expected(format!("a URL such as \"{example}\""));
    }
}

/// Suites may have a slash in them.
fn words(kind: &str, written: Option<&List<Text>>, findings: &mut Findings<'_>) -> Vec<String> {
    let list = written.map(|list| list.value.as_slice()).unwrap_or_default();
    for word in list.iter().filter(|word| !word.value.split('/').all(is_stamp)) {
        let message = format!("`{}` is not the name of a {kind}", word.value);
        (findings.error("bad-source", word.span.clone(), message))
            .expected("letters, digits, `.`, `_` and `-`, such as \"bookworm-updates\"");
    }
    list.iter().map(|word| word.value.clone()).collect()
}

pub(crate) fn credentials(written: &Text, findings: &mut Findings<'_>) -> Option<Credentials> {
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
