//! Private keys of API users, as Oracle's tools leave them on a disk, and signatures with them.
//!
//! rustls signs with ring, which is in the tree anyway. The `rsa` crate is not used: an advisory on its timing is open.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use pkcs8::EncryptedPrivateKeyInfo;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;

use kiln_wire::SecretText;

/// Names no part of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("holds no private key in PEM")]
    NoKey,
    #[error("is encrypted, and no passphrase is given (`pass_phrase`, or OCI_CLI_PASSPHRASE)")]
    NoPassphrase,
    #[error("cannot be decrypted with the passphrase")]
    WrongPassphrase,
    #[error(
        "is encrypted in the old way of OpenSSL; `openssl pkcs8 -topk8 -v2 aes256 -in OLD -out NEW` makes one that can be read"
    )]
    OldEncryption,
    #[error("is not an RSA key that can be used")]
    NotRsa,
}

/// An RSA key that signs.
#[derive(Clone)]
pub struct PrivateKey(Arc<dyn SigningKey>);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.fingerprint())
    }
}

const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

impl PrivateKey {
    /// PKCS#1 or PKCS#8, the latter also encrypted. What stands around it, such as Oracle's `OCI_API_KEY`, does not matter.
    pub fn from_pem(text: &str, passphrase: Option<&SecretText>) -> Result<PrivateKey, KeyError> {
        if let Some(der) = section(text, ENCRYPTED) {
            let passphrase = passphrase.ok_or(KeyError::NoPassphrase)?;
            let encrypted =
                EncryptedPrivateKeyInfo::try_from(der.as_slice()).map_err(|_| KeyError::NotRsa)?;
            let plain =
                encrypted.decrypt(passphrase.expose_secret()).map_err(|_| KeyError::WrongPassphrase)?;
            return Self::from_der(&PrivatePkcs8KeyDer::from(plain.as_bytes()).into());
        }
        if text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err(KeyError::OldEncryption);
        }
        Self::from_der(&PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| KeyError::NoKey)?)
    }

    fn from_der(der: &PrivateKeyDer<'_>) -> Result<PrivateKey, KeyError> {
        let key = any_supported_type(der).map_err(|_| KeyError::NotRsa)?;
        let signs = key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).is_some();
        if signs { Ok(PrivateKey(key)) } else { Err(KeyError::NotRsa) }
    }

    /// RSA with SHA-256 and the padding of PKCS#1, in base64. `None`: the system gives no random numbers.
    pub fn sign(&self, message: &[u8]) -> Option<String> {
        let signer = self.0.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])?;
        signer.sign(message).ok().map(|signature| STANDARD.encode(signature))
    }

    /// The public half, as SubjectPublicKeyInfo in DER.
    pub fn public_key(&self) -> Vec<u8> {
        self.0.public_key().map(|key| key.as_ref().to_vec()).unwrap_or_default()
    }

    /// As Oracle's console shows it.
    pub fn fingerprint(&self) -> String {
        colons(&hex::encode(Md5::digest(self.public_key())))
    }
}

/// `ab12` becomes `ab:12`.
pub(super) fn colons(hex: &str) -> String {
    let pairs: Vec<&str> = (0..hex.len() / 2).map(|at| &hex[2 * at..2 * at + 2]).collect();
    pairs.join(":")
}

/// The content of the first section of a PEM file with this label.
pub(super) fn section(text: &str, label: &str) -> Option<Vec<u8>> {
    let begin = format!("-----BEGIN {label}-----");
    let after = &text[text.find(&begin)? + begin.len()..];
    let body = &after[..after.find("-----END")?];
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::vectors::vectors;

    #[test]
    fn every_form_of_a_key_is_the_same_key() {
        let vectors = vectors();
        let passphrase = SecretText::from(vectors.passphrase.as_str());
        for (form, pem) in &vectors.keys {
            let key = PrivateKey::from_pem(pem, Some(&passphrase)).unwrap_or_else(|e| panic!("{form} {e}"));
            assert_eq!(key.fingerprint(), vectors.fingerprint, "{form}");
            assert_eq!(key.sign(b"message").unwrap(), vectors.signature_of_message, "{form}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_key_is_told() {
        let vectors = vectors();
        let told = |pem: &str, passphrase: Option<&str>| {
            PrivateKey::from_pem(pem, passphrase.map(SecretText::from).as_ref()).unwrap_err()
        };
        let encrypted = &vectors.keys["pkcs8 pbkdf2"];
        assert_eq!(told(encrypted, None), KeyError::NoPassphrase);
        assert_eq!(told(encrypted, Some("another")), KeyError::WrongPassphrase);
        assert_eq!(told(&vectors.old_encryption, Some(&vectors.passphrase)), KeyError::OldEncryption);
        assert_eq!(told(&vectors.elliptic, None), KeyError::NotRsa);
        assert_eq!(told("OCI_API_KEY", None), KeyError::NoKey);
    }

    #[test]
    fn a_key_is_shown_by_its_fingerprint() {
        let vectors = vectors();
        let key = PrivateKey::from_pem(&vectors.keys["pkcs1"], None).unwrap();
        assert_eq!(format!("{key:?}"), format!("PrivateKey({})", vectors.fingerprint));
    }
}
