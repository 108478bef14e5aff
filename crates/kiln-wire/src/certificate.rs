//! Until when a certificate is good: the one field of X.509 that Kiln reads itself. Whether a certificate is to be believed is
//! for the TLS library to say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Of the first certificate of a text in PEM; `None`: it has none.
pub fn certificate_end(pem: &str) -> Option<Timestamp> {
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
    let (encoded, _) = rest.split_once("-----END CERTIFICATE-----")?;
    let encoded: String = encoded.split_whitespace().collect();
    not_after(&STANDARD.decode(encoded).ok()?)
}

/// Of a certificate in DER; `None`: it is not one.
pub fn not_after(der: &[u8]) -> Option<Timestamp> {
    let certificate = inside(SEQUENCE, der)?;
    let mut fields = inside(SEQUENCE, certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let validity = inside(SEQUENCE, fields)?;
    let (_, _, after) = element(validity)?;
    let (tag, text, _) = element(after)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// `YYMMDDHHMMSSZ` up to 2049, `YYYYMMDDHHMMSSZ` behind.
fn time(tag: u8, text: &str) -> Option<Timestamp> {
    let digits = text.strip_suffix('Z').filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    let digits = match (tag, digits.len()) {
        (UTC_TIME, 12) if digits < "5" => format!("20{digits}"),
        (UTC_TIME, 12) => format!("19{digits}"),
        (GENERALIZED_TIME, 14) => digits.to_string(),
        _ => return None,
    };
    let part = |from: usize, to: usize| digits.get(from..to)?.parse::<i16>().ok();
    let small = |from: usize| i8::try_from(part(from, from + 2)?).ok();
    let at = DateTime::new(part(0, 4)?, small(4)?, small(6)?, small(8)?, small(10)?, small(12)?, 0).ok()?;
    Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn inside(tag: u8, der: &[u8]) -> Option<&[u8]> {
    element(der).filter(|(found, ..)| *found == tag).map(|(_, content, _)| content)
}

/// The first element: its tag, what is in it, and what comes behind it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // Four bytes hold the length of any certificate.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// As OpenSSL makes it.
    fn made(end: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| {
            let output = Command::new("openssl").args(arguments).current_dir(&dir).output();
            let output = output.expect("openssl is installed");
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key"];
        run(&[&["req", "-out", "request", "-subj", "/CN=a name that is long enough"], &key[..]].concat());
        std::fs::write(dir.path().join("index"), "").unwrap();
        let ca = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nserial=serial\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n";
        std::fs::write(dir.path().join("conf"), ca).unwrap();
        let sign =
            ["ca", "-batch", "-notext", "-config", "conf", "-rand_serial", "-selfsign", "-keyfile", "key"];
        let files = ["-in", "request", "-out", "pem", "-startdate", "20260101000000Z", "-enddate", end];
        run(&[&sign[..], &files].concat());
        run(&["x509", "-in", "pem", "-outform", "DER", "-out", "der"]);
        std::fs::read(dir.path().join("der")).unwrap()
    }

    #[test]
    fn the_end_of_a_certificate_is_read() {
        for (end, read) in
            [("20270131115900Z", "2027-01-31T11:59:00Z"), ("20510203040506Z", "2051-02-03T04:05:06Z")]
        {
            assert_eq!(not_after(&made(end)).unwrap().to_string(), read);
        }
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_not_a_certificate() {
        let whole = made("20270131115900Z");
        assert!((0..whole.len()).all(|length| not_after(&whole[..length]).is_none()));
        for at in 0..whole.len() {
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                // Whatever it says, it says it without a panic.
                let _ = not_after(&damaged);
            }
        }
        assert_eq!(time(UTC_TIME, "270230115900Z"), None, "there is no such day");
        assert_eq!(time(UTC_TIME, "500101000000Z").unwrap().to_string(), "1950-01-01T00:00:00Z");
    }
}
