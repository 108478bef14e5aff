//! Which way a request came in: from this host, over loopback; or from elsewhere, over TLS.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use ipnet::Ipv4Net;
use kiln_wire::DashboardSettings;
use tokio_rustls::TlsAcceptor;

use crate::auth::Oidc;

/// Every request has one, which the connection gave it.
#[derive(Clone)]
pub struct Door {
    pub client: IpAddr,
    /// `None`: over loopback.
    pub outside: Option<Arc<Outside>>,
}

impl Door {
    pub fn of(extensions: &Extensions) -> Door {
        let inside = || Door { client: Ipv4Addr::LOCALHOST.into(), outside: None };
        extensions.get::<Door>().cloned().unwrap_or_else(inside)
    }

    /// Over TLS.
    pub fn is_secure(&self) -> bool {
        self.outside.is_some()
    }

    /// Whether a request's `Host` is one of ours. Another site's name that leads here would make its pages ours.
    pub fn is_own(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        match &self.outside {
            None => matches!(name, "127.0.0.1" | "localhost" | "[::1]"),
            Some(outside) => outside.names.iter().any(|own| own.eq_ignore_ascii_case(name)),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Door {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Door, Infallible> {
        Ok(Door::of(&parts.extensions))
    }
}

/// The door to other hosts.
pub struct Outside {
    names: Vec<String>,
    from: Vec<Ipv4Net>,
    pub tls: TlsAcceptor,
    /// The site's logins.
    pub oidc: Option<Oidc>,
}

impl Outside {
    pub fn new(settings: &DashboardSettings) -> Result<Outside, String> {
        Ok(Outside {
            names: settings.names.clone(),
            from: settings.from.clone(),
            tls: kiln_cloud::server_tls(settings.certificate.expose_secret())?.into(),
            oidc: settings.oidc.as_ref().map(|oidc| Oidc::new(oidc, &settings.address)).transpose()?,
        })
    }

    /// Whether a connection is taken at all. This host asks whether it is answered.
    pub fn takes(&self, client: IpAddr) -> bool {
        match client.to_canonical() {
            IpAddr::V4(client) => client.is_loopback() || self.from.iter().any(|net| net.contains(&client)),
            IpAddr::V6(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_host_are_its_own() {
        let inside = Door::of(&Extensions::new());
        for host in ["127.0.0.1", "127.0.0.1:6830", "localhost:1", "[::1]:6830", "localhost"] {
            assert!(inside.is_own(host), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil:1", "10.0.0.1:80", ""] {
            assert!(!inside.is_own(host), "{host}");
        }
    }

    #[test]
    fn the_door_to_others_has_names_and_networks() {
        let settings = crate::lab::settings(6831);
        let outside = Outside::new(&settings).unwrap();
        assert!(outside.takes("192.0.2.7".parse().unwrap()) && outside.takes("127.0.0.1".parse().unwrap()));
        assert!(!outside.takes("198.51.100.7".parse().unwrap()) && !outside.takes("::2".parse().unwrap()));
        let door = Door { client: Ipv4Addr::LOCALHOST.into(), outside: Some(Arc::new(outside)) };
        assert!(door.is_secure() && door.is_own("control:6831") && door.is_own("Control"));
        for host in ["evil.example", "localhost", "control.evil", ""] {
            assert!(!door.is_own(host), "{host}");
        }
    }

    #[test]
    fn without_a_key_there_is_no_door() {
        let mut settings = crate::lab::settings(6831);
        settings.certificate = "s3cret".into();
        let told = Outside::new(&settings).err().unwrap();
        assert!(told.contains("no private key") && !told.contains("s3cret"), "{told}");
    }
}
