//! `[time]`: time servers and time zone.

use super::accounting::is_host;
use crate::TimeSettings;
use crate::diagnostic::Findings;
use crate::written::table::table;
use crate::written::{List, Text};

table! {
    /// Time servers and time zone.
    TimeTable {
        /// Names or addresses of NTP servers, for chrony. The local cloud's nodes have their host's clock.
        "servers" => servers: List<Text>, otherwise "those that the image has";
        /// Time zone of the nodes, e.g. `Europe/Berlin`.
        "zone" => zone: Text, otherwise "that of the image, mostly UTC";
    }
}

pub(crate) fn validate(written: &TimeTable, findings: &mut Findings<'_>) -> TimeSettings {
    let servers = written.servers.as_ref().map(|list| list.value.as_slice()).unwrap_or_default();
    for server in servers.iter().filter(|server| !is_host(&server.value)) {
        let message = format!("`{}` is not the name or address of a time server", server.value);
        findings.error("bad-name", server.span.clone(), message).expected("e.g. \"ntp.example.org\"");
    }
    if let Some(list) = written.servers.as_ref().filter(|list| list.value.is_empty()) {
        let message = "a list without time servers keeps no clock";
        findings
            .error("bad-time", list.span.clone(), message)
            .expected("at least one server, or no `servers`");
    }
    if let Some(zone) = written.zone.as_ref().filter(|zone| !is_zone(&zone.value)) {
        let message = format!("`{}` is not a time zone", zone.value);
        findings.error("bad-time", zone.span.clone(), message).expected("e.g. \"Europe/Berlin\" or \"UTC\"");
    }
    TimeSettings {
        servers: servers.iter().map(|server| server.value.clone()).collect(),
        zone: written.zone.as_ref().map(|zone| zone.value.clone()),
    }
}

/// It is the name of a file below `/usr/share/zoneinfo`.
fn is_zone(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte);
    let is_part = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(plain);
    text.split('/').all(is_part)
}
