//! Public keys, as lines of `authorized_keys`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::diagnostic::Findings;
use crate::nearest::did_you_mean;
use crate::written::Text;

const KEY_TYPES: &[&str] = &[
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

pub(crate) fn check(key: &Text, findings: &mut Findings<'_>) {
    let Some(fault) = fault(&key.value) else {
        return;
    };
    let kind = key.value.split_whitespace().next().unwrap_or_default();
    (findings.error("bad-ssh-key", key.span.clone(), fault))
        .expected("one line of a .pub file, options may precede it: [OPTIONS] TYPE BASE64 [COMMENT]")
        .maybe_hint(did_you_mean(kind, KEY_TYPES.iter().copied()));
}

/// What is wrong with a public key, if anything. The message never repeats the key: it might be a private one.
pub fn fault(line: &str) -> Option<String> {
    let line = line.trim();
    if line.contains("PRIVATE KEY") {
        return Some("this is a private key; it must not be in this file".to_owned());
    }
    if line.is_empty() {
        return Some("the key is empty".to_owned());
    }
    if line.contains(|c: char| c.is_control()) {
        return Some("the key has a line break".to_owned());
    }
    let Some(line) = without_options(line) else {
        return Some("a quote in the options is not closed".to_owned());
    };
    let mut words = line.split_whitespace();
    let Some(kind) = words.next().filter(|kind| KEY_TYPES.contains(kind)) else {
        return Some("the line has no known type of key".to_owned());
    };
    let Some(blob) = words.next() else {
        return Some("the line ends after the key's type".to_owned());
    };
    let Ok(blob) = STANDARD.decode(blob) else {
        return Some("the key is not valid base64; it may be cut off".to_owned());
    };
    match fields(&blob).as_deref() {
        None => Some("the key is cut off".to_owned()),
        Some([first, _, ..]) if *first == kind.as_bytes() => None,
        Some(_) => Some(format!("the data is not that of an {kind} key")),
    }
}

/// The line from the key's type on. As for sshd, whatever comes first and is no type is a word of options,
/// which may have blanks inside quotes. `None`: a quote stays open.
fn without_options(line: &str) -> Option<&str> {
    if line.split_whitespace().next().is_some_and(|word| KEY_TYPES.contains(&word)) {
        return Some(line);
    }
    let (mut quoted, mut escaped) = (false, false);
    for (i, c) in line.char_indices() {
        match c {
            '"' if !escaped => quoted = !quoted,
            ' ' if !quoted => return Some(&line[i..]),
            _ => {}
        }
        escaped = c == '\\';
    }
    (!quoted).then_some("")
}

/// The fields of a key's data, each with its length in front; `None` if the data ends inside one.
fn fields(mut blob: &[u8]) -> Option<Vec<&[u8]>> {
    let mut fields = Vec::new();
    while !blob.is_empty() {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let (field, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        fields.push(field);
        blob = rest;
    }
    Some(fields)
}
