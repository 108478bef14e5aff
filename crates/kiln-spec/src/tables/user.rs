//! `[user.NAME]`: a user of the cluster.

use std::collections::BTreeMap;

use crate::User;
use crate::diagnostic::Findings;
use crate::validate::names::is_unix_name;
use crate::validate::ssh_keys;
use crate::written::table::table;
use crate::written::{At, List, Named, Text};

table! {
    /// A user of the cluster.
    UserTable {
        /// Numeric id, 1000 to 60000. The user's own group has the same number.
        "uid" => uid: At<i64>, required;
        /// Supplementary groups. A group that Debian does not have is created, with the gid of its `[user_group.NAME]`, or one from 40000 to 58999 that is derived from its name.
        "groups" => groups: List<Text>, empty;
        /// Public keys: lines of `.pub` files. Options may precede a key, e.g. `'from="10.0.0.0/8" ssh-ed25519 AAAA...'`.
        "ssh_keys" => ssh_keys: List<Text>, empty;
        /// Login shell.
        "shell" => shell: Text, default "/bin/bash";
        /// Whether the user may become root on every node, without a password.
        "sudo" => sudo: At<bool>, default false;
        /// The account of jobs that name none. The user is a member of it.
        "account" => account: Text, otherwise "the first `[account.*]` of the file that has the user";
    }
}

/// Accounts that the nodes' systems have or that Kiln and Slurm make.
pub(super) const SYSTEM_USERS: &[&str] = &[
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
    "slurmrestd",
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
    "ubuntu",
    "sudo",
    "admin",
];

pub(crate) fn validate(written: &Named<UserTable>, findings: &mut Findings<'_>) -> Vec<User> {
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
            .expected("a unique uid")
            .related(first.span.clone(), format!("`{other}`"));
        }
        users.extend(user(name, table, findings));
    }
    users
}

/// What keeps a name from being that of a new user, if anything.
pub fn user_name_fault(name: &str) -> Option<&'static str> {
    if SYSTEM_USERS.contains(&name) {
        Some("it is a system account")
    } else if !is_unix_name(name) {
        Some("a name is a lower-case letter, then lower-case letters, digits, `_` or `-`, at most 31")
    } else {
        None
    }
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
    let groups: Vec<String> = texts(&table.groups, check_group, findings);
    let ssh_keys = texts(&table.ssh_keys, ssh_keys::check, findings);
    check_shell(&table.shell, findings);
    Some(User {
        name: name.value.clone(),
        uid: id("uid", table.uid.as_ref()?, findings)?,
        groups,
        ssh_keys,
        shell: table.shell.value.clone(),
        sudo: table.sudo.value,
        account: table.account.as_ref().map(|account| account.value.clone()),
    })
}

fn texts(
    list: &List<Text>,
    check: impl Fn(&Text, &mut Findings<'_>),
    findings: &mut Findings<'_>,
) -> Vec<String> {
    for text in &list.value {
        check(text, findings);
    }
    list.value.iter().map(|text| text.value.trim().to_owned()).collect()
}

/// The number of a user or a group.
pub(super) fn id(key: &str, id: &At<i64>, findings: &mut Findings<'_>) -> Option<u32> {
    let number = u32::try_from(id.value).ok().filter(|number| (1000..=60_000).contains(number));
    if number.is_none() {
        let message = format!("`{key}` cannot be {}", id.value);
        findings.error("out-of-range", id.span.clone(), message).expected("1000 to 60000");
    }
    number
}

pub(super) fn check_group(group: &Text, findings: &mut Findings<'_>) {
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
