//! Certificates that Kiln makes for the cluster's own services.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use kiln_wire::SecretText;
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

use crate::error::{Error, Result};

/// Monitoring tells before it ends; `kiln secrets rotate` makes another.
const YEARS: i64 = 3;

/// A new key, and a certificate for these names that is signed with it, in PEM.
pub fn own(names: &[String]) -> Result<SecretText> {
    let failed = |error: rcgen::Error| Error::Key(error.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let mut certificate = CertificateParams::new(names.to_vec()).map_err(failed)?;
    let name = names.first().map_or("kiln", String::as_str);
    certificate.distinguished_name.push(DnType::CommonName, name);
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    // A day earlier, for clocks that are behind.
    let begin = today.saturating_sub(Span::new().days(1));
    let end = today.saturating_add(Span::new().years(YEARS));
    let small = |number: i8| u8::try_from(number).unwrap_or(1);
    let midnight = |date: Date| date_time_ymd(date.year().into(), small(date.month()), small(date.day()));
    certificate.not_before = midnight(begin);
    certificate.not_after = midnight(end);
    let signed = certificate.self_signed(&key).map_err(failed)?;
    Ok((key.serialize_pem() + &signed.pem()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_ends_in_years_and_has_its_key() {
        let names = ["control".to_string(), "control.demo.internal".to_string()];
        let pem = own(&names).unwrap();
        let pem = pem.expose_secret();
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----"), "the key is first");
        let end = kiln_cloud::certificate::end_of_pem(pem).unwrap();
        let days = (end.as_second() - Timestamp::now().as_second()) / 86_400;
        assert!((3 * 365 - 2..=3 * 366).contains(&days), "{days}");
        assert_ne!(own(&names).unwrap().expose_secret(), pem);
    }
}
