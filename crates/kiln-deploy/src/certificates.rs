//! Certificates for the cluster's own services, by an authority that is the cluster's alone. Its key does not leave the deploy host.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use kiln_spec::Spec;
use kiln_wire::SecretText;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use std::fmt::Write as _;

use crate::error::{Error, Result};

/// Of an authority, in days: longer than clusters live.
const AUTHORITY_DAYS: i64 = 20 * 365;
/// Of a certificate: the longest that all clients take.
const CERTIFICATE_DAYS: i64 = 825;
/// A certificate that ends within this time is replaced by the next `configure`.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_hours(180 * 24);

/// Whom certificates are for.
#[derive(Debug, Clone)]
pub struct Subject {
    cluster: String,
    /// Of the control node.
    names: Vec<String>,
}

impl Subject {
    pub fn of(spec: &Spec) -> Subject {
        let control = &spec.control.node;
        Subject {
            cluster: spec.name.clone(),
            names: vec![format!("{control}.{}", spec.domain), control.clone(), "localhost".into()],
        }
    }

    /// With one name more, or an address.
    pub fn also(&self, name: Option<&str>) -> Subject {
        let mut names = self.names.clone();
        names.extend(name.filter(|name| !self.names.iter().any(|own| own == name)).map(String::from));
        Subject { names, ..self.clone() }
    }

    /// What a secret with a certificate begins with: PEM passes over it.
    fn line(&self) -> String {
        format!("names: {}", self.names.join(", "))
    }
}

#[allow(clippy::needless_pass_by_value, reason = "what `map_err` calls")]
fn failed(error: rcgen::Error) -> Error {
    Error::Key(error.to_string())
}

/// A new key, and its own certificate.
pub fn authority(subject: &Subject) -> Result<SecretText> {
    let key = new_key()?;
    let certificate = authority_params(subject)?.self_signed(&key).map_err(failed)?;
    Ok((key.serialize_pem() + &certificate.pem()).into())
}

/// A new key, its certificate for the control node, and the authority's.
pub fn certificate(subject: &Subject, authority: &SecretText) -> Result<SecretText> {
    let text = authority.expose_secret();
    let authority_key = KeyPair::from_pem(text).map_err(failed)?;
    // Its name and its key are all that a signature needs of an authority.
    let issuer = Issuer::new(authority_params(subject)?, authority_key);
    let key = new_key()?;
    let mut params = CertificateParams::new(subject.names.clone()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, subject.names[0].clone());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    lasts(&mut params, CERTIFICATE_DAYS)?;
    let signed = params.signed_by(&key, &issuer).map_err(failed)?;
    let mut secret = subject.line() + "\n";
    // Writing to a string does not fail.
    let _ = write!(secret, "{}{}{}", key.serialize_pem(), signed.pem(), own_certificate(text));
    Ok(secret.into())
}

/// Whether a certificate is for these names, by this authority, and good for long enough.
pub fn is_good(subject: &Subject, authority: &SecretText, certificate: &SecretText, now: Timestamp) -> bool {
    let (text, by) = (certificate.expose_secret(), own_certificate(authority.expose_secret()));
    let ends = kiln_wire::certificate::certificate_end(text);
    text.starts_with(&(subject.line() + "\n"))
        && !by.is_empty()
        && text.ends_with(by)
        && ends.is_some_and(|end| end.duration_since(now) > RENEWED_BEFORE)
}

/// The first certificate of a text with an authority's key and certificate, and what follows.
fn own_certificate(text: &str) -> &str {
    text.find("-----BEGIN CERTIFICATE-----").map(|at| &text[at..]).unwrap_or_default()
}

/// Of a kind that every TLS library takes.
fn new_key() -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)
}

fn authority_params(subject: &Subject) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, format!("Kiln cluster {}", subject.cluster));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    lasts(&mut params, AUTHORITY_DAYS)?;
    Ok(params)
}

/// From yesterday on: clocks differ.
fn lasts(params: &mut CertificateParams, days: i64) -> Result<()> {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let date = |date: Date| -> Option<_> {
        let (month, day) = (u8::try_from(date.month()).ok()?, u8::try_from(date.day()).ok()?);
        Some(rcgen::date_time_ymd(date.year().into(), month, day))
    };
    let out_of_range = || Error::Key("this host's clock is wrong".into());
    let end = today.checked_add(days.days()).ok().and_then(date);
    params.not_before = today.yesterday().ok().and_then(date).ok_or_else(out_of_range)?;
    params.not_after = end.ok_or_else(out_of_range)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn subject() -> Subject {
        Subject { cluster: "demo".into(), names: vec!["control.demo.internal".into(), "control".into()] }
    }

    /// As others see it.
    #[test]
    fn openssl_believes_a_certificate_of_the_authority_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (authority(&subject()).unwrap(), authority(&subject()).unwrap());
        let text = certificate(&subject(), &one).unwrap();
        std::fs::write(dir.path().join("leaf"), own_certificate(text.expose_secret())).unwrap();
        let verify = |authority: &SecretText, name: &str| {
            std::fs::write(dir.path().join("ca"), own_certificate(authority.expose_secret())).unwrap();
            let options = ["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", name];
            let command = Command::new("openssl")
                .args(options)
                .args(["-CAfile", "ca", "leaf"])
                .current_dir(&dir)
                .output();
            command.expect("openssl is installed").status.success()
        };
        assert!(verify(&one, "control.demo.internal") && verify(&one, "control"));
        assert!(!verify(&one, "login-0"), "a name that it does not have");
        assert!(!verify(&other, "control"), "another authority");
    }

    #[test]
    fn a_certificate_is_replaced_in_time() {
        let (one, other) = (authority(&subject()).unwrap(), authority(&subject()).unwrap());
        let text = certificate(&subject(), &one).unwrap();
        let now = Timestamp::now();
        let days = |days: i64| now + SignedDuration::from_hours(days * 24);
        assert!(is_good(&subject(), &one, &text, now) && is_good(&subject(), &one, &text, days(640)));
        assert!(!is_good(&subject(), &one, &text, days(650)), "it ends soon");
        assert!(!is_good(&subject(), &other, &text, now), "another authority");
        let renamed = Subject { names: vec!["head.demo.internal".into()], ..subject() };
        assert!(!is_good(&renamed, &one, &text, now), "another name");
    }
}
