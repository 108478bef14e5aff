//! Users of the cluster.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::names::is_unix_name;
use crate::User;
use crate::diagnostic::Findings;
use crate::nearest::did_you_mean;
use crate::written::{At, Named, Text, UserTable};

/// Accounts that the nodes' systems have or that Kiln and Slurm make.
const SYSTEM_USERS: &[&str] = &[
    "root",
    "daemon",
    "bin",
    "sys",
    "sync",
    "games",
    "man",
    "lp",
    "mail",
    "news",
    "uucp",
    "proxy",
    "www-data",
    "backup",
    "list",
    "irc",
    "gnats",
    "nobody",
    "messagebus",
    "sshd",
    "systemd-network",
    "systemd-resolve",
    "systemd-timesync",
    "slurm",
    "slurmdbd",
    "munge",
    "mysql",
    "mariadb",
    "kiln",
    "kilnd",
    "statd",
    "_rpc",
    "_apt",
    "_chrony",
    "ntp",
    "prometheus",
    "postfix",
    "debian",
    "sudo",
    "admin",
];

const KEY_TYPES: &[&str] = &[
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

pub(super) fn users(written: &Named<UserTable>, findings: &mut Findings<'_>) -> Vec<User> {
    let mut uids: BTreeMap<i64, (&str, &At<i64>)> = BTreeMap::new();
    let mut users = Vec::new();
    for (name, table) in written {
        check_name(name, findings);
        if let Some(uid) = &table.uid
            && let Some((other, first)) = uids.insert(uid.value, (&name.value, uid))
        {
            (findings.error(
                "duplicate-uid",
                uid.span.clone(),
                format!("users `{other}` and `{}` have the same uid", name.value),
            ))
            .expected("a uid of its own")
            .related(first.span.clone(), format!("`{other}`"));
        }
        users.extend(user(name, table, findings));
    }
    users
}

fn check_name(name: &Text, findings: &mut Findings<'_>) {
    if SYSTEM_USERS.contains(&name.value.as_str()) {
        (findings.error(
            "reserved-name",
            name.span.clone(),
            format!("a user cannot be named `{}`: it is a system account", name.value),
        ))
        .expected("another name");
    } else if !is_unix_name(&name.value) {
        (findings.error(
            "bad-name",
            name.span.clone(),
            format!("`{}` cannot be the name of a user", name.value),
        ))
        .expected("a lower-case letter, then lower-case letters, digits, `_` or `-`, at most 31");
    }
}

fn user(name: &Text, table: &UserTable, findings: &mut Findings<'_>) -> Option<User> {
    let groups: Vec<String> = texts(table.groups.as_ref(), check_group, findings);
    let ssh_keys = texts(table.ssh_keys.as_ref(), check_key, findings);
    let shell = table.shell.as_ref().map_or("/bin/bash", |shell| {
        check_shell(shell, findings);
        &shell.value
    });
    Some(User {
        name: name.value.clone(),
        uid: uid(table.uid.as_ref()?, findings)?,
        groups,
        ssh_keys,
        shell: shell.to_owned(),
        sudo: table.sudo.as_ref().is_some_and(|flag| flag.value),
    })
}

fn texts(
    written: Option<&At<Vec<Text>>>,
    check: impl Fn(&Text, &mut Findings<'_>),
    findings: &mut Findings<'_>,
) -> Vec<String> {
    let list = written.map(|list| list.value.as_slice()).unwrap_or_default();
    for text in list {
        check(text, findings);
    }
    list.iter().map(|text| text.value.trim().to_owned()).collect()
}

fn uid(uid: &At<i64>, findings: &mut Findings<'_>) -> Option<u32> {
    let number = u32::try_from(uid.value).ok().filter(|number| (1000..=60_000).contains(number));
    if number.is_none() {
        let message = format!("`uid` cannot be {}", uid.value);
        findings.error("out-of-range", uid.span.clone(), message).expected("1000 to 60000");
    }
    number
}

fn check_group(group: &Text, findings: &mut Findings<'_>) {
    if !is_unix_name(&group.value) {
        (findings.error(
            "bad-name",
            group.span.clone(),
            format!("`{}` cannot be the name of a group", group.value),
        ))
        .expected("lower-case letters, digits, `_` and `-`");
    }
}

fn check_shell(shell: &Text, findings: &mut Findings<'_>) {
    let right = shell.value.starts_with('/')
        && shell.value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '+'));
    if !right {
        (findings.error("bad-path", shell.span.clone(), format!("`{}` is not a login shell", shell.value)))
            .expected("an absolute path, e.g. \"/bin/bash\"");
    }
}

fn check_key(key: &Text, findings: &mut Findings<'_>) {
    let Some(fault) = key_fault(&key.value) else {
        return;
    };
    let kind = key.value.split_whitespace().next().unwrap_or_default();
    (findings.error("bad-ssh-key", key.span.clone(), fault))
        .expected("one line of a .pub file: TYPE BASE64 [COMMENT]")
        .maybe_hint(did_you_mean(kind, KEY_TYPES.iter().copied()));
}

/// What is wrong with a public key, if anything. The message never repeats the key: it might be a private one.
fn key_fault(line: &str) -> Option<String> {
    if line.contains("PRIVATE KEY") {
        return Some("this is a private key; it must not be in this file".to_owned());
    }
    if line.trim().contains(|c: char| c.is_control()) {
        return Some("the key has a line break".to_owned());
    }
    let mut words = line.split_whitespace();
    let Some(kind) = words.next() else {
        return Some("the key is empty".to_owned());
    };
    if !KEY_TYPES.contains(&kind) {
        return Some("the line does not begin with a known type of key".to_owned());
    }
    let Some(blob) = words.next() else {
        return Some("the line ends after the type of the key".to_owned());
    };
    let Ok(blob) = STANDARD.decode(blob) else {
        return Some("the key is not valid base64; it may be cut off".to_owned());
    };
    match key_fields(&blob).as_deref() {
        None => Some("the key is cut off".to_owned()),
        Some([first, _, ..]) if *first == kind.as_bytes() => None,
        Some(_) => Some(format!("the data is not that of an {kind} key")),
    }
}

/// The fields of a key's data, each with its length in front; `None` if the data ends inside one.
fn key_fields(mut blob: &[u8]) -> Option<Vec<&[u8]>> {
    let mut fields = Vec::new();
    while !blob.is_empty() {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let (field, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        fields.push(field);
        blob = rest;
    }
    Some(fields)
}
