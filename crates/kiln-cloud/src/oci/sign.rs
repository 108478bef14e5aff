//! The signature of a request: which headers, in which order, under whose name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use reqwest::Method;
use sha2::{Digest as _, Sha256};

use super::key::PrivateKey;

/// Who signs, and with which key.
#[derive(Debug, Clone)]
pub struct Signer {
    /// `TENANCY/USER/FINGERPRINT`, or `ST$TOKEN`.
    pub key_id: String,
    pub key: PrivateKey,
}

/// What of a request is signed.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    pub method: &'a Method,
    /// Path and query, exactly as they are sent.
    pub target: &'a str,
    pub host: &'a str,
    /// As it is sent in the header of this name.
    pub date: &'a str,
    pub content: Content<'a>,
}

#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// The request has none, or the service does not want it signed: parts of objects.
    Unsigned,
    Json(&'a [u8]),
}

/// The headers to send, in addition to host and date.
pub type Headers = Vec<(&'static str, String)>;

impl Signer {
    /// `None`: the system gives no random numbers.
    pub fn headers(&self, request: &Signed<'_>) -> Option<Headers> {
        let mut headers = Headers::new();
        let mut names = vec!["date", "(request-target)", "host"];
        let method = request.method.as_str().to_lowercase();
        let mut lines = vec![
            format!("date: {}", request.date),
            format!("(request-target): {method} {}", request.target),
            format!("host: {}", request.host),
        ];
        if let Content::Json(body) = request.content {
            headers.push(("content-length", body.len().to_string()));
            headers.push(("content-type", "application/json".into()));
            headers.push(("x-content-sha256", STANDARD.encode(Sha256::digest(body))));
            for (name, value) in &headers {
                names.push(name);
                lines.push(format!("{name}: {value}"));
            }
        }
        headers.push(("authorization", self.authorization(&names, &lines)?));
        Some(headers)
    }

    /// For the request that exchanges an instance's certificate for a token, whose host is not signed.
    pub fn federation_headers(&self, target: &str, date: &str, body: &[u8]) -> Option<Headers> {
        let mut headers: Headers = vec![
            ("content-length", body.len().to_string()),
            ("content-type", "application/json".into()),
            ("x-content-sha256", STANDARD.encode(Sha256::digest(body))),
        ];
        let mut names = vec!["date", "(request-target)"];
        let mut lines = vec![format!("date: {date}"), format!("(request-target): post {target}")];
        for (name, value) in &headers {
            names.push(name);
            lines.push(format!("{name}: {value}"));
        }
        headers.push(("authorization", self.authorization(&names, &lines)?));
        Some(headers)
    }

    fn authorization(&self, names: &[&str], lines: &[String]) -> Option<String> {
        let signature = self.key.sign(lines.join("\n").as_bytes())?;
        Some(format!(
            "Signature algorithm=\"rsa-sha256\",headers=\"{}\",keyId=\"{}\",signature=\"{signature}\",version=\"1\"",
            names.join(" "),
            self.key_id
        ))
    }
}

/// As HTTP writes times.
pub fn http_date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::vectors::{parameters, vectors};

    /// Oracle's SDK has signed the same requests with the same key: the signatures are equal to the last bit.
    #[test]
    fn requests_are_signed_as_oracles_sdk_signs_them() {
        let vectors = vectors();
        for vector in &vectors.requests {
            let key = PrivateKey::from_pem(&vectors.keys["pkcs1"], None).unwrap();
            let signer = Signer { key_id: vector.key_id.clone(), key };
            let method: Method = vector.method.parse().unwrap();
            let content = match &vector.body {
                Some(body) => Content::Json(body.as_bytes()),
                None => Content::Unsigned,
            };
            let request = Signed {
                method: &method,
                target: &vector.target,
                host: &vector.host,
                date: &vector.date,
                content,
            };
            let headers = signer.headers(&request).unwrap();
            let value = |name: &str| {
                headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
            };
            assert_eq!(
                parameters(value("authorization").unwrap()),
                parameters(&vector.authorization),
                "{}",
                vector.name
            );
            assert_eq!(value("x-content-sha256"), vector.content_sha256.as_deref(), "{}", vector.name);
        }
        assert!(vectors.requests.len() >= 5);
    }

    #[test]
    fn the_exchange_of_a_certificate_is_signed_without_its_host() {
        let vectors = vectors();
        let vector = &vectors.federation;
        let key = PrivateKey::from_pem(&vectors.keys["pkcs1"], None).unwrap();
        let signer = Signer { key_id: vector.key_id.clone(), key };
        let body = vector.body.as_deref().unwrap_or_default();
        let headers = signer.federation_headers(&vector.target, &vector.date, body.as_bytes()).unwrap();
        let (_, authorization) = headers.last().unwrap();
        assert_eq!(parameters(authorization), parameters(&vector.authorization));
    }

    #[test]
    fn times_are_written_as_http_wants_them() {
        let time: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
        assert_eq!(http_date(time), "Tue, 03 Feb 2026 04:05:06 GMT");
    }
}
