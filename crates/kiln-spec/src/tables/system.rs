//! `[system]`: settings of the operating system of every node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::accounting::is_host;
use crate::diagnostic::Findings;
use crate::parse::Files;
use crate::written::table::table;
use crate::written::{At, List, Named, Scalar, Text};
use crate::{Certificate, Proxy, Syslog, SystemSettings};

table! {
    /// Settings of the operating system of every node.
    SystemTable {
        /// Files with certificates of authorities that nodes trust, in PEM, relative to the cluster file.
        "certificates" => certificates: List<Text>, empty;
        /// Addresses of name servers. `/etc/resolv.conf` becomes Kiln's.
        "dns" => dns: List<Text>, otherwise "what the cloud's network says";
        /// Domains that names without a dot are looked up in, behind the cluster's own. Only with `dns`.
        "search" => search: List<Text>, empty;
        /// Proxy for HTTP and HTTPS, which shells of users and root get in their environment, e.g. `http://proxy.example.org:3128`.
        "proxy" => proxy: Text, otherwise "none";
        /// Hosts and domains that are reached without the proxy. The cluster's own nodes always are.
        "no_proxy" => no_proxy: List<Text>, empty;
        /// Kernel parameters by name, e.g. `{ "vm.swappiness" = 1 }`. The local cloud's nodes have their host's.
        "sysctl" => sysctl: Named<Scalar>, empty;
        /// Locale of the nodes. Others than `C.UTF-8` must be in the image: Debian's package `locales-all` has them.
        "locale" => locale: Text, default "C.UTF-8";
        /// How many MiB of a node's disk its journal may use, 16 to 100000.
        "journal" => journal: At<i64>, default 200;
        /// A syslog server that nodes send their logs to, over TCP: `HOST` or `HOST:PORT`. rsyslog becomes part of the image.
        "syslog" => syslog: Text, otherwise "logs stay on the nodes";
    }
}

const SYSLOG_PORT: u16 = 514;

pub(crate) fn validate(
    written: &SystemTable,
    files: Files<'_>,
    findings: &mut Findings<'_>,
) -> SystemSettings {
    let journal = u64::try_from(written.journal.value).ok().filter(|mib| (16..=100_000).contains(mib));
    if journal.is_none() {
        let message = format!("`journal` cannot be {}", written.journal.value);
        findings.error("out-of-range", written.journal.span.clone(), message).expected("16 to 100000 MiB");
    }
    if !is_locale(&written.locale.value) {
        let message = format!("`{}` is not a locale", written.locale.value);
        (findings.error("bad-locale", written.locale.span.clone(), message))
            .expected("e.g. \"C.UTF-8\" or \"de_DE.UTF-8\"");
    }
    let dns = dns(written, findings);
    if let Some(first) = written.search.value.first().filter(|_| dns.is_empty()) {
        (findings.error("bad-name", first.span.clone(), "`search` needs the name servers in `dns`"))
            .expected("`dns = [...]`, or no `search`");
    }
    SystemSettings {
        locale: written.locale.value.clone(),
        certificates: certificates(&written.certificates, files, findings),
        dns,
        search: hosts(&written.search, "a domain", findings),
        proxy: proxy(written, findings),
        sysctl: sysctl(&written.sysctl, findings),
        journal_mib: journal.unwrap_or_default(),
        syslog: written.syslog.as_ref().and_then(|text| syslog(text, findings)),
    }
}

fn is_locale(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(plain)
}

fn dns(written: &SystemTable, findings: &mut Findings<'_>) -> Vec<IpAddr> {
    let list = written.dns.as_ref().map(|list| list.value.as_slice()).unwrap_or_default();
    let mut addresses = Vec::new();
    for server in list {
        if let Ok(address) = server.value.parse() {
            addresses.push(address);
        } else {
            let message = format!("`{}` is not the address of a name server", server.value);
            findings.error("bad-address", server.span.clone(), message).expected("e.g. \"192.0.2.53\"");
        }
    }
    if let Some(fourth) = list.get(3) {
        (findings.error("bad-address", fourth.span.clone(), "the resolver uses three name servers"))
            .expected("at most three");
    }
    addresses
}

fn hosts(list: &List<Text>, what: &str, findings: &mut Findings<'_>) -> Vec<String> {
    for host in list.value.iter().filter(|host| !is_host(host.value.trim_start_matches('.'))) {
        let message = format!("`{}` is not {what}", host.value);
        findings.error("bad-name", host.span.clone(), message).expected("e.g. \"example.org\"");
    }
    list.value.iter().map(|host| host.value.clone()).collect()
}

/// It stands in a file that shells read.
fn proxy(written: &SystemTable, findings: &mut Findings<'_>) -> Option<Proxy> {
    let except = hosts(&written.no_proxy, "a host or domain", findings);
    let Some(url) = &written.proxy else {
        if let Some(first) = written.no_proxy.value.first() {
            findings.error("bad-url", first.span.clone(), "there is no `proxy`").expected("`proxy = ...`");
        }
        return None;
    };
    let rest = url.value.strip_prefix("http://").or_else(|| url.value.strip_prefix("https://"));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/._-[]".contains(&byte);
    if !rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain)) {
        // What was written may have a password in it, and is not repeated.
        (findings.error("bad-url", url.span.clone(), "this is not the URL of a proxy"))
            .expected("a URL without user and password, e.g. \"http://proxy.example.org:3128\"");
    }
    Some(Proxy { url: url.value.clone(), except })
}

fn sysctl(written: &Named<Scalar>, findings: &mut Findings<'_>) -> BTreeMap<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    for (name, Scalar(value)) in written {
        if name.value.split('.').count() < 2 || !name.value.bytes().all(plain) {
            let message = format!("`{}` is not a kernel parameter", name.value);
            findings.error("bad-name", name.span.clone(), message).expected("e.g. \"vm.swappiness\"");
        }
        if value.value.contains(|c: char| c.is_control()) {
            findings
                .error("bad-value", value.span.clone(), "a kernel parameter is one line")
                .expected("one line");
        }
    }
    written.iter().map(|(name, Scalar(value))| (name.value.clone(), value.value.clone())).collect()
}

fn syslog(text: &Text, findings: &mut Findings<'_>) -> Option<Syslog> {
    let (host, port) = match text.value.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, port.parse().ok()),
        _ => (text.value.as_str(), Some(SYSLOG_PORT)),
    };
    if let Some(port) = port.filter(|port| *port > 0)
        && is_host(host)
    {
        return Some(Syslog { host: host.to_owned(), port });
    }
    let message = format!("`{}` is not the address of a syslog server", text.value);
    findings.error("bad-address", text.span.clone(), message).expected("HOST or HOST:PORT");
    None
}

fn certificates(list: &List<Text>, files: Files<'_>, findings: &mut Findings<'_>) -> Vec<Certificate> {
    let mut found: Vec<Certificate> = Vec::new();
    for path in &list.value {
        let fault = match files(&path.value).map(String::from_utf8) {
            Ok(Ok(content)) if is_certificate(&content) => {
                let name = certificate_name(&path.value);
                if found.iter().all(|other| other.name != name) {
                    found.push(Certificate { name, content });
                    continue;
                }
                "another one has the same name".to_owned()
            }
            Ok(Ok(content)) if content.contains("PRIVATE KEY-----") => "it has a private key".to_owned(),
            Ok(_) => "it has no certificate in PEM".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("the certificate `{}` cannot be used: {fault}", path.value);
        (findings.error("bad-certificate", path.span.clone(), message))
            .expected("a file with certificates in PEM, relative to the cluster file");
    }
    found
}

fn is_certificate(content: &str) -> bool {
    content.contains("-----BEGIN CERTIFICATE-----") && !content.contains("PRIVATE KEY-----")
}

/// That of its file, as a file on any node may be called.
fn certificate_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n";

    fn parsed(table: &str) -> Result<SystemSettings, String> {
        let text = format!(
            "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n[system]\n{table}\n"
        );
        let files = |path: &str| match path {
            "ca/site root.pem" => Ok(CA.as_bytes().to_vec()),
            "key.pem" => Ok(b"-----BEGIN PRIVATE KEY-----".to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        crate::parse_with_files(&text, "cluster.toml", &files)
            .map(|(spec, _)| spec.system)
            .map_err(|errors| errors.to_string())
    }

    #[test]
    fn certificates_come_from_files() {
        let settings = parsed("certificates = [\"ca/site root.pem\"]").unwrap();
        assert_eq!(settings.certificates, [Certificate { name: "site_root".into(), content: CA.into() }]);
        for (wrong, why) in [
            ("[\"key.pem\"]", "it has a private key"),
            ("[\"gone.pem\"]", "cannot be used"),
            ("[\"ca/site root.pem\", \"ca/site root.pem\"]", "another one has the same name"),
        ] {
            let errors = parsed(&format!("certificates = {wrong}")).unwrap_err();
            assert!(errors.contains(why), "{errors}");
        }
    }

    #[test]
    fn servers_have_ports() {
        let port =
            |text: &str| parsed(&format!("syslog = \"{text}\"")).ok().and_then(|s| s.syslog).map(|s| s.port);
        assert_eq!(port("log.example.org"), Some(514));
        assert_eq!(port("log.example.org:6514"), Some(6514));
        assert_eq!(port("log.example.org:x"), None);
        assert_eq!(port("a b"), None);
    }
}
