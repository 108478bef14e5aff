//! What the project may still use, and which credentials end when.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::driver::Driver;
use super::login::{Identity, Named};
use super::session::Service::{self, Compute};
use crate::remote::bounded;
use crate::{Expiry, Quota, QuotaKind, Result};

#[derive(Debug, Deserialize)]
struct Limits {
    absolute: Absolute,
}

/// Nova's answer; a negative limit is none.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Absolute {
    max_total_instances: i64,
    total_instances_used: u64,
    max_total_cores: i64,
    total_cores_used: u64,
    #[serde(rename = "maxTotalRAMSize")]
    max_total_ram_size: i64,
    #[serde(rename = "totalRAMUsed")]
    total_ram_used: u64,
}

#[derive(Debug, Deserialize)]
struct Credential {
    id: String,
    name: String,
    #[serde(default)]
    expires_at: Option<String>,
}

impl Driver {
    pub async fn quotas(&self) -> Result<Vec<Quota>> {
        let limits: Limits = self.client.get(Compute, "/limits", "limits").await?;
        Ok(quotas(&limits.absolute))
    }

    /// The credential that this host logs in with and the one of the control node, where they have an end.
    pub async fn expiries(&self, cluster: &str) -> Result<Vec<Expiry>> {
        let user = self.client.session.token().await?.user_id.clone();
        let path = format!("/users/{user}/application_credentials");
        // A restricted credential may not even look at itself: then nobody knows when it ends.
        let all: Vec<Credential> =
            self.client.get(Service::Identity, &path, "application_credentials").await?;
        let own = match &self.client.session.login.identity {
            Identity::ApplicationCredential { credential, .. } => Some(credential),
            Identity::Password { .. } | Identity::Token { .. } => None,
        };
        let control = self.control_login()?;
        let name = self.credential_name(cluster).await?;
        let is_used = |c: &&Credential| {
            c.name == name
                || own.is_some_and(|own| is(own, c))
                || control.as_ref().is_some_and(|control| is(control.credential(), c))
        };
        Ok(all.iter().filter(is_used).filter_map(expiry).collect())
    }

    /// The certificates of all services. One that does not answer, or not by TLS, has none that could be seen.
    pub async fn certificates(&self) -> Result<Vec<Expiry>> {
        let session = &self.client.session;
        let token = session.token().await?;
        let services = [Service::Identity, Compute, Service::Image, Service::Network, Service::Volume];
        let mut servers: BTreeMap<String, String> = BTreeMap::new();
        for url in services.into_iter().filter_map(|service| session.endpoint(&token, service).ok()) {
            if let Some(server) = tls_server(&url) {
                servers.entry(server).or_insert(url);
            }
        }
        let look = |(server, url): (String, String)| async move {
            let at = self.client.certificate_end(&url).await?;
            Some(Expiry { what: format!("certificate of {server}"), at })
        };
        Ok(bounded(servers.into_iter().collect(), look).await.into_iter().flatten().collect())
    }
}

/// `HOST:PORT`, where there is a certificate.
fn tls_server(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok().filter(|url| url.scheme() == "https")?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

fn is(named: &Named, credential: &Credential) -> bool {
    match named {
        Named::Id(id) => *id == credential.id,
        Named::Name(name) => *name == credential.name,
    }
}

/// Keystone writes times in UTC and does not say so: `2027-01-31T12:00:00.000000`.
fn expiry(credential: &Credential) -> Option<Expiry> {
    let text = credential.expires_at.as_deref()?.trim_end_matches('Z');
    let at = text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Expiry { what: format!("application credential {}", credential.name), at: at.timestamp() })
}

fn quotas(absolute: &Absolute) -> Vec<Quota> {
    let all = [
        (QuotaKind::Instances, absolute.max_total_instances, absolute.total_instances_used),
        (QuotaKind::Cpus, absolute.max_total_cores, absolute.total_cores_used),
        (QuotaKind::MemoryMib, absolute.max_total_ram_size, absolute.total_ram_used),
    ];
    let limited = all
        .into_iter()
        .filter_map(|(kind, limit, used)| Some(Quota { kind, limit: u64::try_from(limit).ok()?, used }));
    limited.collect()
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod certificates_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_limit_is_left_out() {
        let text = r#"{"absolute": {"maxTotalInstances": 10, "totalInstancesUsed": 4, "maxTotalCores": -1,
            "totalCoresUsed": 8, "maxTotalRAMSize": 51200, "totalRAMUsed": 1024, "maxServerMeta": 128}}"#;
        let limits: Limits = serde_json::from_str(text).unwrap();
        let shown: Vec<String> = quotas(&limits.absolute)
            .iter()
            .map(|q| format!("{} of {} {}", q.used, q.limit, q.kind.word()))
            .collect();
        assert_eq!(shown, ["4 of 10 instances", "1024 of 51200 MiB of memory"]);
    }

    #[test]
    fn only_tls_has_certificates() {
        assert_eq!(tls_server("https://id.example.org/v3").as_deref(), Some("id.example.org:443"));
        assert_eq!(tls_server("https://10.0.0.1:5000/v3").as_deref(), Some("10.0.0.1:5000"));
        assert_eq!(tls_server("http://id.example.org/v3"), None);
    }

    #[test]
    fn a_credential_may_have_an_end() {
        let credential = |expires_at: Option<&str>| Credential {
            id: "i".into(),
            name: "mine".into(),
            expires_at: expires_at.map(String::from),
        };
        assert!(expiry(&credential(None)).is_none());
        let found = expiry(&credential(Some("2027-01-31T12:00:00.000000"))).unwrap();
        assert_eq!(found.what, "application credential mine");
        assert_eq!(found.at.to_string(), "2027-01-31T12:00:00Z");
    }
}
