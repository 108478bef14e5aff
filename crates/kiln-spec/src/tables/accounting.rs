//! `[accounting]`: where the accounts are, and whether Kiln manages them.

use crate::diagnostic::Findings;
use crate::merge::Merged;
use crate::tables::{SlurmTable, account, qos};
use crate::written::table::table;
use crate::written::{At, Choice, Text};
use crate::{Accounts, AccountsMode, ExternalSlurmdbd};

const DEFAULT_PORT: i64 = 6819;

table! {
    /// Where the accounts are, and whether Kiln manages them.
    AccountingTable {
        /// What becomes of accounts and QOS that are not as the file's `[account.*]` and `[qos.*]` tables say: `manage` makes them so and removes others, `add` only adds what is missing, `off` leaves them alone. `kiln plan` shows the difference.
        "mode" => mode: At<AccountsMode>, default AccountsMode::Add;
        /// Name or address of the host where the site's slurmdbd runs, for sites that keep the accounts of several clusters in one database: `AccountingStorageHost`. The control node has no slurmdbd and no database then, and the MUNGE key is the site's.
        "host" => host: Text, otherwise "slurmdbd and its database run on the control node";
        /// The port of that slurmdbd.
        "port" => port: At<i64>, default DEFAULT_PORT;
        /// The host of its backup: `AccountingStorageBackupHost`.
        "backup_host" => backup_host: Text, otherwise "it has none";
    }
}

impl Choice for AccountsMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("manage", AccountsMode::Manage), ("add", AccountsMode::Add), ("off", AccountsMode::Off)];
}

pub(crate) fn accounts(merged: &Merged, findings: &mut Findings<'_>) -> Accounts {
    account::check_default(&merged.users, &merged.accounts, findings);
    Accounts {
        mode: merged.accounting.mode.value,
        accounts: account::validate(&merged.accounts, &merged.qos, &merged.users, findings),
        qos: qos::validate(&merged.qos, findings),
    }
}

pub(crate) fn slurmdbd(
    written: &AccountingTable,
    slurm: &SlurmTable,
    findings: &mut Findings<'_>,
) -> Option<ExternalSlurmdbd> {
    if written.host.is_none() {
        if let Some(backup) = &written.backup_host {
            let message = "`backup_host` is for a slurmdbd of the site, and [accounting] has no `host`";
            findings
                .error("missing-key", backup.span.clone(), message)
                .expected("`host = ...` in this table");
        }
        if written.port.value != DEFAULT_PORT {
            let message = "`port` is for a slurmdbd of the site, and [accounting] has no `host`";
            (findings.error("missing-key", written.port.span.clone(), message))
                .expected("`host = ...` in this table");
        }
        return None;
    }
    let port = u16::try_from(written.port.value).ok().filter(|port| *port > 0);
    if port.is_none() {
        let message = format!("`port` cannot be {}", written.port.value);
        findings.error("out-of-range", written.port.span.clone(), message).expected("1 to 65535");
    }
    for host in [&written.host, &written.backup_host].into_iter().flatten() {
        if !is_host(&host.value) {
            let message = format!("`{}` is not the name or address of a host", host.value);
            (findings.error("bad-name", host.span.clone(), message))
                .expected("e.g. \"dbd.example.org\" or \"192.0.2.7\"");
        }
    }
    if let Some((key, _)) = slurm.slurmdbd_config.first() {
        let message = "the cluster has no slurmdbd.conf: slurmdbd runs on the `host` of [accounting]";
        (findings.error("no-slurmdbd", key.span.clone(), message)).expected("no `slurmdbd_config`");
    }
    Some(ExternalSlurmdbd {
        host: written.host.as_ref()?.value.clone(),
        port: port?,
        backup_host: written.backup_host.as_ref().map(|host| host.value.clone()),
    })
}

/// It stands in slurm.conf and in messages.
pub(crate) fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    !text.is_empty()
        && text.len() < 256
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(plain)
}
