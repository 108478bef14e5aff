//! What Oracle's own SDK makes of keys and requests, for the tests. `vectors.py` beside `vectors.json` made them.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct Vectors {
    pub fingerprint: String,
    pub passphrase: String,
    pub signature_of_message: String,
    /// One key in every form that can be read.
    pub keys: BTreeMap<String, String>,
    pub old_encryption: String,
    pub elliptic: String,
    pub requests: Vec<Request>,
    pub federation: Request,
}

#[derive(Debug, Deserialize)]
pub struct Request {
    pub name: String,
    pub key_id: String,
    pub method: String,
    pub target: String,
    pub host: String,
    pub date: String,
    pub body: Option<String>,
    pub authorization: String,
    pub content_sha256: Option<String>,
}

pub fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../tests/oci/vectors.json")).unwrap()
}

/// The parameters of an `Authorization` header; their order does not matter.
pub fn parameters(header: &str) -> BTreeMap<&str, &str> {
    let (scheme, rest) = header.split_once(' ').unwrap();
    assert_eq!(scheme, "Signature");
    rest.split(',').map(|pair| pair.split_once('=').unwrap()).map(|(k, v)| (k, v.trim_matches('"'))).collect()
}
