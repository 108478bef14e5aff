//! Whether an ID token is to be believed: its signature, and what it says about itself.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Clocks differ by so many seconds.
const SKEW: i64 = 60;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("it is not an ID token")]
    Form,
    #[error("it is signed with an algorithm that is not taken here: RS256 and ES256 are")]
    Algorithm,
    #[error("it is signed with a key that the provider does not show")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("its {0} is wrong")]
    Claim(&'static str),
}

/// One of the provider's public keys.
#[derive(Debug, Clone, Deserialize)]
pub struct Key {
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    #[serde(flatten)]
    material: Material,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kty")]
enum Material {
    #[serde(rename = "RSA")]
    Rsa { n: String, e: String },
    #[serde(rename = "EC")]
    Curve { crv: String, x: String, y: String },
}

/// What a token has to say.
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client: &'a str,
    pub nonce: &'a str,
    /// In seconds.
    pub now: i64,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    /// What one has to understand and does not is a reason to refuse.
    crit: Option<Value>,
}

pub fn claims(token: &str, keys: &[Key], expected: &Expected<'_>) -> Result<Map<String, Value>, Wrong> {
    let (signed, signature) = token.rsplit_once('.').ok_or(Wrong::Form)?;
    let (head, body) = signed.split_once('.').ok_or(Wrong::Form)?;
    let head: Head = serde_json::from_slice(&bytes(head)?).map_err(|_| Wrong::Form)?;
    if !matches!(head.alg.as_str(), "RS256" | "ES256") || head.crit.is_some() {
        return Err(Wrong::Algorithm);
    }
    let mut candidates = keys.iter().filter(|key| key.is_for(&head)).peekable();
    if candidates.peek().is_none() {
        return Err(Wrong::UnknownKey);
    }
    let signature = bytes(signature)?;
    if !candidates.any(|key| key.has_signed(signed.as_bytes(), &signature)) {
        return Err(Wrong::Signature);
    }
    let claims: Map<String, Value> = serde_json::from_slice(&bytes(body)?).map_err(|_| Wrong::Form)?;
    check(&claims, expected)?;
    Ok(claims)
}

fn check(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), Wrong> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let demand = |holds: bool, name: &'static str| if holds { Ok(()) } else { Err(Wrong::Claim(name)) };
    demand(text("iss") == Some(expected.issuer), "issuer")?;
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    demand(audience.contains(&expected.client), "audience")?;
    // With several, it says whom it was made for.
    let party = text("azp");
    demand(party.is_none_or(|party| party == expected.client), "authorized party")?;
    demand(audience.len() == 1 || party.is_some(), "authorized party")?;
    let second = |name: &str| claims.get(name).and_then(Value::as_f64);
    #[allow(clippy::cast_precision_loss, reason = "seconds have less than sixteen digits")]
    let (early, late) = ((expected.now - SKEW) as f64, (expected.now + SKEW) as f64);
    demand(second("exp").is_some_and(|end| end > early), "time of expiry")?;
    demand(second("iat").is_some_and(|issued| issued < late), "time of issue")?;
    demand(claims.get("nbf").is_none() || second("nbf").is_some_and(|begin| begin < late), "beginning")?;
    demand(text("nonce") == Some(expected.nonce), "nonce")?;
    demand(text("sub").is_some_and(|subject| !subject.is_empty()), "subject")
}

fn bytes(text: &str) -> Result<Vec<u8>, Wrong> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Wrong::Form)
}

impl Key {
    fn is_for(&self, head: &Head) -> bool {
        let is_kind = match &self.material {
            Material::Rsa { .. } => head.alg == "RS256",
            Material::Curve { crv, .. } => head.alg == "ES256" && crv == "P-256",
        };
        is_kind
            && self.purpose.as_ref().is_none_or(|purpose| purpose == "sig")
            && self.alg.as_ref().is_none_or(|alg| *alg == head.alg)
            && (head.kid.is_none() || self.kid == head.kid)
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { n, e } => {
                let (Ok(n), Ok(e)) = (bytes(n), bytes(e)) else { return false };
                let key = RsaPublicKeyComponents { n: &n, e: &e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            Material::Curve { x, y, .. } => {
                let (Ok(x), Ok(y)) = (bytes(x), bytes(y)) else { return false };
                let point = [&[4][..], &x, &y].concat();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}
