//! Where the services are.

use crate::{Error, Result};

/// A service of Oracle Cloud that Kiln calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Compute, networks, block volumes and their work requests.
    Core,
    /// File Storage.
    Files,
    Identity,
    Limits,
    Objects,
    /// Gives tokens to instances.
    Auth,
}

impl Service {
    /// What all paths of the service begin with.
    pub fn base(self) -> &'static str {
        match self {
            Service::Core | Service::Identity => "/20160918",
            Service::Files => "/20171215",
            Service::Limits => "/20190729",
            Service::Objects => "",
            Service::Auth => "/v1",
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Service::Core => "iaas",
            Service::Files => "filestorage",
            Service::Identity => "identity",
            Service::Limits => "limits",
            Service::Objects => "objectstorage",
            Service::Auth => "auth",
        }
    }

    fn host(self, region: &str, domain: &str) -> String {
        let word = self.word();
        match self {
            Service::Core | Service::Objects | Service::Auth => format!("{word}.{region}.{domain}"),
            Service::Files | Service::Identity | Service::Limits => {
                format!("{word}.{region}.oci.{domain}")
            }
        }
    }
}

/// Where to send requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoints {
    Oracle {
        region: String,
        domain: String,
    },
    /// One address for all services.
    One(String),
}

impl Endpoints {
    pub fn of(region: &str, tenancy: &str) -> Result<Endpoints> {
        let plain = region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !plain || !region.contains('-') {
            return Err(Error::refused(format!("`{region}` is not the name of a region"))
                .with_hint("regions have names such as us-phoenix-1; `oci iam region list` shows them"));
        }
        Ok(Endpoints::Oracle { region: region.into(), domain: domain_of(tenancy) })
    }

    /// Without a slash at its end.
    pub fn url(&self, service: Service) -> String {
        match self {
            Endpoints::Oracle { region, domain } => format!("https://{}", service.host(region, domain)),
            Endpoints::One(url) => url.trim_end_matches('/').to_string(),
        }
    }
}

/// Every realm has a domain of its own. The tenancy's id tells the realm: `ocid1.tenancy.oc1..x`.
fn domain_of(tenancy: &str) -> String {
    let realm = tenancy.split('.').nth(2).unwrap_or_default();
    match realm.strip_prefix("oc").and_then(|number| number.parse::<u32>().ok()) {
        Some(2 | 3) => "oraclegovcloud.com".into(),
        Some(4) => "oraclegovcloud.uk".into(),
        Some(number) if number > 4 => format!("oraclecloud{number}.com"),
        _ => "oraclecloud.com".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_found_in_every_realm() {
        let of = |tenancy: &str, service| Endpoints::of("uk-london-1", tenancy).unwrap().url(service);
        let oc1 = "ocid1.tenancy.oc1..x";
        assert_eq!(of(oc1, Service::Core), "https://iaas.uk-london-1.oraclecloud.com");
        assert_eq!(of(oc1, Service::Identity), "https://identity.uk-london-1.oci.oraclecloud.com");
        assert_eq!(of(oc1, Service::Files), "https://filestorage.uk-london-1.oci.oraclecloud.com");
        let objects = of("ocid1.tenancy.oc4..x", Service::Objects);
        assert_eq!(objects, "https://objectstorage.uk-london-1.oraclegovcloud.uk");
        assert_eq!(of("ocid1.tenancy.oc9..x", Service::Auth), "https://auth.uk-london-1.oraclecloud9.com");
    }

    #[test]
    fn a_region_cannot_lead_elsewhere() {
        for wrong in ["phx", "us-phoenix-1.example.org", "us-phoenix-1/x", "", "US-PHOENIX-1"] {
            let error = Endpoints::of(wrong, "t").unwrap_err();
            assert!(error.to_string().contains("is not the name of a region"), "{error}");
        }
    }
}
