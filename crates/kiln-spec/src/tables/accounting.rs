//! `[accounting]`: a slurmdbd that the site runs.

use crate::ExternalSlurmdbd;
use crate::diagnostic::Findings;
use crate::tables::SlurmTable;
use crate::written::table::table;
use crate::written::{At, Text};

table! {
    /// A slurmdbd that the site runs, for sites that keep the accounts of several clusters in one database.
    AccountingTable {
        /// Name or address of the host where the site's slurmdbd runs: `AccountingStorageHost`. The control node has no slurmdbd and no database then, and the MUNGE key is the site's.
        "host" => host: Text, required;
        /// The port of that slurmdbd.
        "port" => port: At<i64>, default 6819;
        /// The host of its backup: `AccountingStorageBackupHost`.
        "backup_host" => backup_host: Text, otherwise "it has none";
    }
}

pub(crate) fn validate(
    written: &AccountingTable,
    slurm: &SlurmTable,
    findings: &mut Findings<'_>,
) -> Option<ExternalSlurmdbd> {
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
fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    !text.is_empty()
        && text.len() < 256
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(plain)
}
