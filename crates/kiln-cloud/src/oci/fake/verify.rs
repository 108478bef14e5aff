//! Who sends a request: every signature is verified, as the services do.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, Method};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pkcs8::SubjectPublicKeyInfoRef;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};

use super::answer::{Answer, refuse};
use super::{TENANCY, USER};
use crate::oci::key::PrivateKey;

/// Whose request it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    User,
    /// An instance that asks for a token.
    Certificate,
    Instance,
}

/// Public keys by the name that requests have for them.
pub struct Keys(BTreeMap<String, (Caller, Vec<u8>)>);

fn vectors() -> serde_json::Value {
    serde_json::from_str(include_str!("../../../tests/oci/vectors.json")).unwrap_or_default()
}

pub fn user_key() -> String {
    vectors()["keys"]["pkcs1"].as_str().unwrap_or_default().to_string()
}

/// What an instance gets from its metadata service: `cert.pem`, `key.pem`, `intermediate.pem`.
pub fn instance_document(name: &str) -> Option<String> {
    vectors()["instance"][name].as_str().map(String::from)
}

impl Keys {
    pub fn new() -> Keys {
        let mut keys = BTreeMap::new();
        if let Ok(key) = PrivateKey::from_pem(&user_key(), None) {
            let name = format!("{TENANCY}/{USER}/{}", key.fingerprint());
            keys.insert(name, (Caller::User, key.public_key()));
        }
        let instance = instance_document("key.pem").and_then(|pem| PrivateKey::from_pem(&pem, None).ok());
        let name = instance_document("key id");
        if let (Some(key), Some(name)) = (instance, name) {
            keys.insert(name, (Caller::Certificate, key.public_key()));
        }
        Keys(keys)
    }

    pub fn forget(&mut self) {
        self.0.retain(|_, (caller, _)| *caller != Caller::Instance);
    }

    pub fn add(&mut self, name: String, caller: Caller, public_key: Vec<u8>) {
        self.0.insert(name, (caller, public_key));
    }

    /// `Err`: the refusal.
    pub fn verify(
        &self,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Caller, Answer> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let authorization = text("authorization").and_then(|value| value.strip_prefix("Signature "));
        let Some(authorization) = authorization else { return Err(no("no signature")) };
        let parameters = parameters(authorization);
        let get = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
        if (get("algorithm"), get("version")) != ("rsa-sha256", "1") {
            return Err(no("algorithm or version"));
        }
        let signed: Vec<&str> = get("headers").split(' ').collect();
        let mut needed = vec!["date", "(request-target)"];
        if !target.starts_with("/v1/x509") {
            needed.push("host");
        }
        // Objects and their parts are not signed.
        let is_object = *method == Method::PUT && (target.contains("/o/") || target.contains("/u/"));
        if [Method::POST, Method::PUT].contains(method) && !is_object {
            needed.extend(["x-content-sha256", "content-type", "content-length"]);
            if text("x-content-sha256") != Some(&STANDARD.encode(Sha256::digest(body))) {
                return Err(no("the body is another"));
            }
        }
        if let Some(missing) = needed.iter().find(|name| !signed.contains(name)) {
            return Err(no(&format!("{missing} is not signed")));
        }
        let mut lines = Vec::new();
        for name in signed {
            let value = match name {
                "(request-target)" => format!("{} {target}", method.as_str().to_lowercase()),
                _ => text(name).ok_or_else(|| no(&format!("{name} is signed but not sent")))?.to_string(),
            };
            lines.push(format!("{name}: {value}"));
        }
        let date = text("date").and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        let now = Timestamp::now().as_second();
        if date.is_none_or(|date| (date.timestamp().as_second() - now).abs() > 300) {
            return Err(no("the date is more than five minutes off"));
        }
        let Some((caller, key)) = self.0.get(get("keyId")) else { return Err(no("unknown key")) };
        let signature = STANDARD.decode(get("signature")).map_err(|_| no("the signature is no base64"))?;
        if verifies(key, lines.join("\n").as_bytes(), &signature) {
            Ok(caller.clone())
        } else {
            Err(no("the signature is wrong"))
        }
    }
}

fn verifies(spki: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let Ok(info) = SubjectPublicKeyInfoRef::try_from(spki) else { return false };
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, info.subject_public_key.raw_bytes());
    key.verify(message, signature).is_ok()
}

/// The real services do not say what is wrong; a test wants to know.
fn no(why: &str) -> Answer {
    let text = "The required information to complete authentication was not provided or was incorrect.";
    refuse(401, "NotAuthenticated", format!("{text} ({why})"))
}

fn parameters(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.trim().split_once('='));
    pairs.map(|(key, value)| (key.to_string(), value.trim_matches('"').to_string())).collect()
}
