//! `[dashboard]`: who may look at the dashboard over the network, and the site's own logins.

use super::source;
use crate::cloud::ipv4_net;
use crate::diagnostic::Findings;
use crate::parse::Files;
use crate::written::table::table;
use crate::written::{List, Text};
use crate::{Dashboard, OidcSpec, SiteCertificate};

table! {
    /// Who may look at the dashboard over the network, with TLS. Without this table it is reached over SSH alone.
    DashboardTable {
        /// Networks that connections are taken from, e.g. `["192.0.2.0/24"]`. Security groups let them in to port 6831, and kilnd answers nobody else there.
        "from" => from: List<Text>, required;
        /// The address that browsers use, e.g. `https://kiln.example.org`, where something of the site leads to port 6831 of control.
        "address" => address: Text, otherwise "`https://CONTROL.DOMAIN:6831`";
        /// File with the site's certificate for that name and those that signed it (PEM), relative to the cluster file.
        "certificate" => certificate: Text, otherwise "the cluster's own authority signs one";
        /// Where the certificate's key is (PEM): `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. Required with `certificate`. On the cluster only kilnd has it.
        "key" => key: Text, otherwise "the cluster's own";
        /// Logins of the site.
        "oidc" => oidc: OidcTable, otherwise "people come with tokens and with `kiln dashboard`";
    }
}

table! {
    /// A provider of OpenID Connect, which says who somebody is.
    OidcTable {
        /// The provider's address, as it calls itself, e.g. `https://sso.example.org/realms/hpc`.
        "issuer" => issuer: Text, required;
        /// How the provider knows the dashboard.
        "client_id" => client_id: Text, required;
        /// Where the provider's secret for it is: `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. On the cluster only kilnd has it.
        "client_secret" => client_secret: Text, required;
        /// What the provider is asked for, besides `openid`.
        "scopes" => scopes: List<Text>, otherwise "`profile` and `email`";
        /// Claim of the ID token with what `operators` and `viewers` name: a word or a list of words.
        "claim" => claim: Text, default "groups";
        /// Values of the claim that make somebody an operator.
        "operators" => operators: List<Text>, empty;
        /// Values of the claim that make somebody a viewer.
        "viewers" => viewers: List<Text>, empty;
        /// Claim with the name that stands in events.
        "name" => name: Text, default "preferred_username";
        /// Names of those who may log in.
        "users" => users: List<Text>, otherwise "all who have a role";
    }
}

pub(crate) fn validate(
    written: Option<&DashboardTable>,
    files: Files<'_>,
    findings: &mut Findings<'_>,
) -> Option<Dashboard> {
    let written = written?;
    if let Some(address) = &written.address {
        check_address(address, findings);
    }
    let certificate = certificate(written, files, findings);
    let oidc = written.oidc.as_ref().and_then(|table| oidc(table, findings));
    let from = written.from.as_ref()?;
    if from.value.is_empty() {
        (findings.error("bad-network", from.span.clone(), "nobody could look at the dashboard"))
            .expected("at least one network, or no [dashboard]");
    }
    Some(Dashboard {
        from: from.value.iter().filter_map(|text| ipv4_net(text, findings)).collect(),
        address: written.address.as_ref().map(|text| text.value.trim_end_matches('/').to_string()),
        certificate,
        oidc,
    })
}

fn check_address(address: &Text, findings: &mut Findings<'_>) {
    let rest = address.value.strip_prefix("https://").map(|rest| rest.trim_end_matches('/'));
    let is_right = rest.is_some_and(|rest| {
        let (host, port) = rest.split_once(':').unwrap_or((rest, "443"));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if !is_right {
        let message = format!("`{}` is not an address of the dashboard", address.value);
        (findings.error("bad-url", address.span.clone(), message))
            .expected("https:// with a name, and a port where it is not 443: \"https://kiln.example.org\"");
    }
}

fn certificate(
    written: &DashboardTable,
    files: Files<'_>,
    findings: &mut Findings<'_>,
) -> Option<SiteCertificate> {
    let (path, key) = match (&written.certificate, &written.key) {
        (Some(path), Some(key)) => (path, key),
        (None, None) => return None,
        (Some(alone), None) => {
            (findings.error("missing-key", alone.span.clone(), "the certificate has no `key`"))
                .expected("`key = \"file:PATH\"` or `key = \"env:NAME\"`");
            return None;
        }
        (None, Some(alone)) => {
            (findings.error("missing-key", alone.span.clone(), "the key has no `certificate`"))
                .expected("`certificate = \"PATH\"`");
            return None;
        }
    };
    let fault = match files(&path.value).map(String::from_utf8) {
        Ok(Ok(pem)) if pem.contains("PRIVATE KEY-----") => "it has a private key, which belongs to `key`",
        Ok(Ok(pem)) if pem.contains("-----BEGIN CERTIFICATE-----") => {
            let key = source::credentials(key, findings)?;
            return Some(SiteCertificate { path: path.value.clone(), pem, key });
        }
        Ok(_) => "it has no certificate",
        Err(error) => &error.to_string(),
    };
    let message = format!("the certificate `{}` cannot be used: {fault}", path.value);
    (findings.error("bad-certificate", path.span.clone(), message))
        .expected("a file with certificates in PEM, relative to the cluster file");
    None
}

fn oidc(table: &OidcTable, findings: &mut Findings<'_>) -> Option<OidcSpec> {
    let (issuer, client_id) = (table.issuer.as_ref()?, table.client_id.as_ref()?);
    let rest = issuer.value.strip_prefix("https://").unwrap_or_default();
    let plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}@?#".contains(c);
    if rest.is_empty() || rest.starts_with('/') || !rest.chars().all(plain) {
        let message = format!("`{}` is not the address of a provider", issuer.value);
        (findings.error("bad-url", issuer.span.clone(), message))
            .expected("its https:// address, e.g. \"https://sso.example.org/realms/hpc\"");
    }
    for (key, text) in [("client_id", client_id), ("claim", &table.claim), ("name", &table.name)] {
        if text.value.trim().is_empty() || text.value.contains(char::is_control) {
            (findings.error("bad-oidc", text.span.clone(), format!("`{key}` is empty")))
                .expected("a word that the provider uses");
        }
    }
    let scopes = table.scopes.as_ref().map(|list| list.value.as_slice());
    for scope in scopes.unwrap_or_default() {
        if scope.value.is_empty() || !scope.value.chars().all(|c| c.is_ascii_graphic() && !"\"\\".contains(c))
        {
            (findings.error("bad-oidc", scope.span.clone(), format!("`{}` is not a scope", scope.value)))
                .expected("one word, e.g. \"groups\"");
        }
    }
    if table.operators.value.is_empty() && table.viewers.value.is_empty() {
        (findings.error("bad-oidc", table.at.clone(), "[dashboard.oidc] gives nobody a role"))
            .expected("`operators` or `viewers`, e.g. operators = [\"hpc-admins\"]");
    }
    let words = |list: &List<Text>| list.value.iter().map(|word| word.value.clone()).collect();
    Some(OidcSpec {
        issuer: issuer.value.clone(),
        client_id: client_id.value.clone(),
        client_secret: source::credentials(table.client_secret.as_ref()?, findings)?,
        scopes: table.scopes.as_ref().map_or_else(|| vec!["profile".into(), "email".into()], words),
        claim: table.claim.value.clone(),
        operators: words(&table.operators),
        viewers: words(&table.viewers),
        name: table.name.value.clone(),
        users: table.users.as_ref().map(words),
    })
}
