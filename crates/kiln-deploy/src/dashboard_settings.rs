//! The dashboard as others on the network see it: what kilnd is told of it.

use jiff::Timestamp;
use kiln_site::services::dashboard;
use kiln_spec::{Credentials, Dashboard, OidcSpec, SiteCertificate};
use kiln_wire::dashboard::TLS_PORT;
use kiln_wire::{DashboardSettings, OidcSettings, Proxy, SecretText};

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;
use crate::targets::credentials;

impl Deployment<'_> {
    /// Secrets of the site are read here and now; from then on kilnd has them, and nobody else.
    pub(crate) fn dashboard_settings(&self, observed: &Observed) -> Result<Option<DashboardSettings>> {
        let Some(dashboard) = &self.spec.dashboard else { return Ok(None) };
        let control = &self.spec.control.node;
        let full = format!("{control}.{}", self.spec.domain);
        let own = observed.nodes().get(control.as_str()).and_then(|instance| instance.address);
        let names = [control.clone(), full.clone()].into_iter();
        let names =
            names.chain(dashboard.host().map(String::from)).chain(own.map(|address| address.to_string()));
        Ok(Some(DashboardSettings {
            port: TLS_PORT,
            address: dashboard.address.clone().unwrap_or_else(|| format!("https://{full}:{TLS_PORT}")),
            names: names.collect(),
            from: dashboard.from.clone(),
            certificate: self.dashboard_certificate(dashboard)?,
            oidc: dashboard.oidc.as_ref().map(|oidc| self.oidc_settings(oidc)).transpose()?,
        }))
    }

    /// That what the file refers to is there and can be used, before anything is made.
    pub(crate) fn check_dashboard(&self) -> Result<()> {
        let Some(dashboard) = &self.spec.dashboard else { return Ok(()) };
        self.dashboard_certificate(dashboard)?;
        dashboard.oidc.as_ref().map(|oidc| self.oidc_settings(oidc)).transpose().map(drop)
    }

    fn dashboard_certificate(&self, dashboard: &Dashboard) -> Result<SecretText> {
        match &dashboard.certificate {
            None => self.secrets.read(&dashboard::CERTIFICATE),
            Some(certificate) => {
                site_certificate(certificate, |place| credentials(place, self.file_dir()), Timestamp::now())
                    .map_err(Error::DashboardCertificate)
            }
        }
    }

    fn oidc_settings(&self, oidc: &OidcSpec) -> Result<OidcSettings> {
        let secret = credentials(&oidc.client_secret, self.file_dir()).map_err(Error::OidcSecret)?;
        let secret = secret.expose_secret().trim();
        if secret.is_empty() || secret.contains(char::is_control) {
            return Err(Error::OidcSecret("it is not one line of text".into()));
        }
        let proxy = kiln_site::proxy(self.spec).map(|(url, except)| Proxy { url, except });
        Ok(OidcSettings {
            issuer: oidc.issuer.clone(),
            client_id: oidc.client_id.clone(),
            client_secret: secret.into(),
            scopes: oidc.scopes.clone(),
            claim: oidc.claim.clone(),
            operators: oidc.operators.clone(),
            viewers: oidc.viewers.clone(),
            name: oidc.name.clone(),
            users: oidc.users.clone(),
            proxy,
        })
    }
}

/// Key and certificate as one text, if they belong together and are still good.
fn site_certificate(
    certificate: &SiteCertificate,
    read: impl FnOnce(&Credentials) -> std::result::Result<SecretText, String>,
    now: Timestamp,
) -> std::result::Result<SecretText, String> {
    let key = read(&certificate.key)?;
    let both: SecretText = format!("{}\n{}", key.expose_secret().trim_end(), certificate.pem).into();
    kiln_cloud::server_tls(both.expose_secret())?;
    match kiln_wire::certificate::certificate_end(&certificate.pem) {
        Some(end) if end > now => Ok(both),
        Some(end) => Err(format!("{} has expired at {end}", certificate.path)),
        None => Err(format!("{} cannot be understood", certificate.path)),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn certified() -> (SiteCertificate, String) {
        let made = rcgen::generate_simple_self_signed(["kiln.example.org".to_string()]).unwrap();
        let key = Credentials::File("key.pem".into());
        let certificate = SiteCertificate { path: "cert.pem".into(), pem: made.cert.pem(), key };
        (certificate, made.signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_of_the_site_needs_its_own_key_and_time_left() {
        let ((certificate, key), (_, other)) = (certified(), certified());
        let now = Timestamp::now();
        let with = |key: &str, now| site_certificate(&certificate, |_| Ok(key.into()), now);
        let both = with(&key, now).unwrap();
        assert!(both.expose_secret().starts_with(key.trim_end()));
        for (wrong, said) in
            [(other.as_str(), "does not belong"), ("s3cret", "no private key"), ("", "no private key")]
        {
            let told = with(wrong, now).unwrap_err();
            assert!(told.contains(said) && !told.contains("s3cret"), "{told}");
        }
        let late = now + SignedDuration::from_hours(24 * 365 * 3000);
        assert!(with(&key, late).unwrap_err().contains("has expired"));
    }
}
