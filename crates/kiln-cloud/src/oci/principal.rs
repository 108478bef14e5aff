//! An instance as the caller: its certificate, which its metadata service gives, is exchanged for a token that lasts some
//! minutes. Nothing of a person's is on the instance.

use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde::Deserialize;
use serde_json::json;

use super::fault::{fault, no_answer};
use super::key::{PrivateKey, colons, section};
use super::region::{Endpoints, Service};
use super::sign::{Signer, http_date};
use crate::retry::{Policy, retry};
use crate::{Error, Result};

/// A token, and the key that only this process has.
#[derive(Debug)]
pub struct Token {
    pub signer: Signer,
    pub expires: Timestamp,
}

/// Renewed this many seconds before its end.
const MARGIN: i64 = 60;

impl Token {
    pub fn is_fresh(&self) -> bool {
        self.expires.as_second() - MARGIN > Timestamp::now().as_second()
    }
}

/// The certificate as the instance's metadata has it.
struct Certificate {
    leaf: Vec<u8>,
    intermediate: Vec<u8>,
    key: PrivateKey,
}

pub async fn token(http: &reqwest::Client, metadata: &str, endpoints: &Endpoints) -> Result<Token> {
    let certificate = certificate(http, metadata).await?;
    let tenancy = tenancy_of(&certificate.leaf).ok_or_else(|| unreadable("certificate"))?;
    let fingerprint = hex::encode_upper(digest(&SHA1_FOR_LEGACY_USE_ONLY, &certificate.leaf));
    let signer =
        Signer { key_id: format!("{tenancy}/fed-x509/{}", colons(&fingerprint)), key: certificate.key };
    let session = session_key().await?;
    let body = json!({
        "certificate": STANDARD.encode(&certificate.leaf),
        "publicKey": STANDARD.encode(session.public_key()),
        "intermediateCertificates": [STANDARD.encode(&certificate.intermediate)],
    })
    .to_string();
    let url = format!("{}{}/x509", endpoints.url(Service::Auth), Service::Auth.base());
    let (signer, body, url) = (&signer, &body, &url);
    let answer = retry(&Policy::REMOTE, |_| exchange(http, url, signer, body)).await?;
    Ok(Token {
        expires: expiry(&answer).ok_or_else(|| unreadable("token"))?,
        signer: Signer { key_id: format!("ST${answer}"), key: session },
    })
}

async fn exchange(http: &reqwest::Client, url: &str, signer: &Signer, body: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Answer {
        token: String,
    }
    let address = reqwest::Url::parse(url).map_err(|_| Error::refused(format!("{url} is no address")))?;
    let date = http_date(Timestamp::now());
    let headers = signer
        .federation_headers(address.path(), &date, body.as_bytes())
        .ok_or_else(|| Error::failed("the request cannot be signed"))?;
    let mut request = http.post(address.clone()).header("date", &date).body(body.to_string());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response = request.send().await.map_err(|e| no_answer(e, "auth"))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await.map_err(|e| no_answer(e, "auth"))?;
    if !status.is_success() {
        return Err(fault(status, &headers, &bytes, &reqwest::Method::POST, address.path())
            .about("this instance gets no token"));
    }
    serde_json::from_slice::<Answer>(&bytes).map(|a| a.token).map_err(|_| unreadable("token"))
}

async fn certificate(http: &reqwest::Client, metadata: &str) -> Result<Certificate> {
    let [leaf, intermediate, key] = [
        document(http, metadata, "cert.pem").await?,
        document(http, metadata, "intermediate.pem").await?,
        document(http, metadata, "key.pem").await?,
    ];
    let der = |text: &str| section(text, "CERTIFICATE").ok_or_else(|| unreadable("certificate"));
    Ok(Certificate {
        leaf: der(&leaf)?,
        intermediate: der(&intermediate)?,
        key: PrivateKey::from_pem(&key, None).map_err(|_| unreadable("key"))?,
    })
}

/// Not there at once after boot, and not always: asked again.
async fn document(http: &reqwest::Client, metadata: &str, name: &str) -> Result<String> {
    let url = &format!("{}/identity/{name}", metadata.trim_end_matches('/'));
    retry(&Policy::REMOTE, |_| async move {
        let request = http.get(url).header("authorization", "Bearer Oracle");
        let response = request.send().await.map_err(|e| no_answer(e, "the instance's metadata service"))?;
        if !response.status().is_success() {
            return Err(Error::unanswered(format!("the metadata service answers {}", response.status())));
        }
        response.text().await.map_err(|e| no_answer(e, "the instance's metadata service"))
    })
    .await
}

/// ring makes no RSA keys; OpenSSH, which every node has, does.
async fn session_key() -> Result<PrivateKey> {
    let failed = |e: std::io::Error| Error::unsupported("ssh-keygen cannot make a key").because(e);
    let directory = std::env::temp_dir().join(format!("kiln-oci-{:016x}", rand::random::<u64>()));
    let mut builder = tokio::fs::DirBuilder::new();
    builder.mode(0o700).create(&directory).await.map_err(failed)?;
    let path = directory.join("key");
    let made = tokio::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"])
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    let text = tokio::fs::read_to_string(&path).await;
    let _ = tokio::fs::remove_dir_all(&directory).await;
    if !made.map_err(failed)?.success() {
        return Err(Error::unsupported("ssh-keygen cannot make a key"));
    }
    PrivateKey::from_pem(&text.map_err(failed)?, None).map_err(|_| unreadable("session key"))
}

/// It stands in the certificate's subject as `opc-tenant:OCID`, after a byte that says how long that text is. What follows
/// it may look like a part of it.
fn tenancy_of(leaf: &[u8]) -> Option<String> {
    let mark = b"opc-tenant:";
    let at = leaf.windows(mark.len()).position(|window| window == mark)?;
    let length = usize::from(*leaf.get(at.checked_sub(1)?)?);
    let text = std::str::from_utf8(leaf.get(at + mark.len()..at + length)?).ok()?;
    text.starts_with("ocid1.tenancy.").then(|| text.to_string())
}

fn expiry(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: i64,
    }
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    Timestamp::from_second(serde_json::from_slice::<Claims>(&claims).ok()?.exp).ok()
}

fn unreadable(what: &str) -> Error {
    Error::failed(format!("the instance's {what} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_when_it_ends() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"x","exp":1700000000}"#);
        assert_eq!(expiry(&format!("h.{claims}.s")).unwrap().as_second(), 1_700_000_000);
        for wrong in ["", "a.b.c", "a.e30.c"] {
            assert_eq!(expiry(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_tenancy_stands_in_the_certificate() {
        let leaf = b"\x13\x22opc-tenant:ocid1.tenancy.oc1..aaaa\x31\x0f";
        assert_eq!(tenancy_of(leaf).as_deref(), Some("ocid1.tenancy.oc1..aaaa"));
        assert_eq!(tenancy_of(b"opc-tenant:elsewhere"), None);
        assert_eq!(tenancy_of(b""), None);
    }

    #[tokio::test]
    async fn a_session_has_a_key_of_its_own() {
        let (one, other) = (session_key().await.unwrap(), session_key().await.unwrap());
        assert_ne!(one.fingerprint(), other.fingerprint());
    }
}
