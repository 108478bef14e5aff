//! Sealing a bundle to its node, from the deploy host: HPKE (RFC 9180) in its authenticated mode, with X25519,
//! HKDF-SHA256 and ChaCha20Poly1305. Whoever reads the share without the node's key learns nothing, and a node accepts
//! only what was sealed with the deploy host's key.
//!
//! A sealed bundle is the line [`HEAD`], the encapsulated key and the encrypted bundle.

use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem as _, OpModeR, OpModeS, Serializable};

use crate::bundle::Bundle;
use crate::format::{Format as _, ReadError};
use crate::secret_text::SecretText;

type Kem = X25519HkdfSha256;
type PrivateKey = <Kem as hpke::Kem>::PrivateKey;
type PublicKey = <Kem as hpke::Kem>::PublicKey;
type EncappedKey = <Kem as hpke::Kem>::EncappedKey;

/// The version of the sealing: another one gets another number.
const HEAD: &[u8] = b"kiln-sealed 1\n";
/// What every version's head begins with.
const NAME: &[u8] = b"kiln-sealed ";
/// Ties the keys to their purpose.
const INFO: &[u8] = b"kiln bundle";
const ENCAPPED: usize = 32;

const SECRET: &str = "KILN-SEAL-KEY-";
const PUBLIC: &str = "kiln-seal-";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("this is not the public half of a sealing key")]
    BadPublicKey,
    /// Without detail: the detail would hold parts of the key.
    #[error("this is not a sealing key of this kiln; `kiln configure` brings a new one")]
    BadKey,
    #[error("cannot seal the bundle")]
    Seal,
    /// An older kiln sealed otherwise.
    #[error("this is not a sealed bundle; `kiln configure` writes a new one")]
    NotSealed,
    #[error("a newer kiln sealed this bundle: upgrade kiln on this host")]
    Newer,
    #[error(
        "the bundle cannot be opened: it is not for this node's key, not from this cluster's deploy host, or was \
         tampered with"
    )]
    Open,
    #[error(transparent)]
    Content(#[from] ReadError),
    #[error("the bundle is for node `{found}` of cluster `{cluster}`, not for this node")]
    WrongNode { found: String, cluster: String },
}

/// A sealed bundle that was opened: it is for this node's key, from the deploy host, and as that sealed it.
pub struct Opened {
    json: Vec<u8>,
}

impl Opened {
    /// `key` is the node's secret key, `sender` the public half of the deploy host's.
    pub fn new(bytes: &[u8], key: &SecretText, sender: &str) -> Result<Self, SealError> {
        let (key, sender) = (parse_secret(key)?, parse_public(sender)?);
        let Some(rest) = bytes.strip_prefix(HEAD) else {
            return Err(if bytes.starts_with(NAME) { SealError::Newer } else { SealError::NotSealed });
        };
        let (encapped, sealed) = rest.split_at_checked(ENCAPPED).ok_or(SealError::Open)?;
        let encapped = EncappedKey::from_bytes(encapped).map_err(|_| SealError::Open)?;
        let json = hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeR::Auth(sender),
            &key,
            &encapped,
            INFO,
            sealed,
            HEAD,
        )
        .map_err(|_| SealError::Open)?;
        Ok(Opened { json })
    }

    /// The digest of the `kiln` that the bundle is for. Every release reads this one field, whatever the bundle's format:
    /// it leads to a `kiln` that reads the rest.
    pub fn kiln(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct OfAnyFormat {
            kiln: Option<String>,
        }
        serde_json::from_slice::<OfAnyFormat>(&self.json).ok()?.kiln
    }

    /// What a push over SSH would bring, too.
    pub fn bundle(&self) -> Result<Bundle, SealError> {
        Ok(Bundle { kiln: None, ..Bundle::from_json(&self.json)? })
    }

    /// A bundle that names another node was put in the wrong place, by mistake or by intent.
    pub fn bundle_for(&self, cluster: &str, node: &str) -> Result<Bundle, SealError> {
        let bundle = self.bundle()?;
        if bundle.node == node && bundle.cluster == cluster {
            Ok(bundle)
        } else {
            Err(SealError::WrongNode { found: bundle.node, cluster: bundle.cluster })
        }
    }
}

/// `recipient` is the public half of the node's key, `sender` the deploy host's secret key.
pub fn seal(bundle: &Bundle, recipient: &str, sender: &SecretText) -> Result<Vec<u8>, SealError> {
    let recipient = parse_public(recipient)?;
    let sender = parse_secret(sender)?;
    let public = Kem::sk_to_pk(&sender);
    let json = bundle.to_json().map_err(|_| SealError::Seal)?;
    let (encapped, sealed) = hpke::single_shot_seal::<ChaCha20Poly1305, HkdfSha256, Kem>(
        &OpModeS::Auth((sender, public)),
        &recipient,
        INFO,
        &json,
        HEAD,
    )
    .map_err(|_| SealError::Seal)?;
    Ok([HEAD, &encapped.to_bytes(), &sealed].concat())
}

/// The secret and the public half of the key that belongs to a seed; always the same for the same seed.
pub fn seal_keypair(seed: &[u8; 32]) -> (SecretText, String) {
    let (secret, public) = Kem::derive_keypair(seed);
    let text = |prefix: &str, bytes: &[u8]| format!("{prefix}{}", hex::encode(bytes));
    (text(SECRET, &secret.to_bytes()).into(), text(PUBLIC, &public.to_bytes()))
}

fn parse_secret(text: &SecretText) -> Result<PrivateKey, SealError> {
    decode(SECRET, text.expose_secret())
        .and_then(|bytes| PrivateKey::from_bytes(&bytes).ok())
        .ok_or(SealError::BadKey)
}

fn parse_public(text: &str) -> Result<PublicKey, SealError> {
    decode(PUBLIC, text).and_then(|bytes| PublicKey::from_bytes(&bytes).ok()).ok_or(SealError::BadPublicKey)
}

fn decode(prefix: &str, text: &str) -> Option<Vec<u8>> {
    hex::decode(text.trim().strip_prefix(prefix)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Version;

    fn unseal(bytes: &[u8], key: &SecretText, sender: &str) -> Result<Bundle, SealError> {
        Opened::new(bytes, key, sender)?.bundle()
    }

    fn bundle() -> Bundle {
        Bundle {
            kiln: None,
            format: Version,
            cluster: "demo".into(),
            node: "c1".into(),
            role: "compute".into(),
            resources: Vec::new(),
        }
    }

    /// A bundle from the key of seed 9 to that of seed 1.
    fn sealed() -> Vec<u8> {
        seal(&bundle(), &seal_keypair(&[1; 32]).1, &seal_keypair(&[9; 32]).0).unwrap()
    }

    #[test]
    fn a_seed_always_gives_the_same_keys() {
        let (secret, public) = seal_keypair(&[7; 32]);
        assert!(secret.expose_secret().starts_with("KILN-SEAL-KEY-") && public.starts_with("kiln-seal-"));
        assert_eq!(seal_keypair(&[7; 32]), (secret.clone(), public));
        assert_ne!(seal_keypair(&[8; 32]).0, secret);
    }

    #[test]
    fn only_the_nodes_own_key_opens() {
        let (key, other) = (seal_keypair(&[1; 32]).0, seal_keypair(&[2; 32]).0);
        let sender = seal_keypair(&[9; 32]).1;
        let from_file = format!("{}\n", key.expose_secret()).into();
        assert_eq!(unseal(&sealed(), &from_file, &format!("{sender}\n")), Ok(bundle()));
        assert_eq!(unseal(&sealed(), &other, &sender), Err(SealError::Open));
    }

    #[test]
    fn only_what_the_sender_sealed_is_accepted() {
        let ((key, recipient), sender) = (seal_keypair(&[1; 32]), seal_keypair(&[9; 32]).1);
        // Another node has a key of its own, and knows the public half of this node's.
        let forged = seal(&bundle(), &recipient, &seal_keypair(&[2; 32]).0).unwrap();
        assert_eq!(unseal(&forged, &key, &sender), Err(SealError::Open));
        assert_eq!(unseal(&forged, &key, &seal_keypair(&[2; 32]).1), Ok(bundle()));
    }

    #[test]
    fn tampering_is_seen_at_every_byte() {
        let (key, sender) = (seal_keypair(&[1; 32]).0, seal_keypair(&[9; 32]).1);
        let sealed = sealed();
        for position in 0..sealed.len() {
            let mut tampered = sealed.clone();
            tampered[position] ^= 1;
            assert!(unseal(&tampered, &key, &sender).is_err(), "byte {position}");
        }
        for length in [0, 5, HEAD.len(), HEAD.len() + ENCAPPED, sealed.len() - 1] {
            assert!(unseal(&sealed[..length], &key, &sender).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn another_version_is_told_apart_from_noise() {
        let (key, sender) = (seal_keypair(&[1; 32]).0, seal_keypair(&[9; 32]).1);
        assert_eq!(unseal(b"kiln-sealed 2\nx", &key, &sender), Err(SealError::Newer));
        assert_eq!(unseal(b"age-encryption.org/v1\n", &key, &sender), Err(SealError::NotSealed));
    }

    #[test]
    fn a_bundle_of_another_node_or_cluster_is_refused() {
        let (key, sender) = (seal_keypair(&[1; 32]).0, seal_keypair(&[9; 32]).1);
        let opened = Opened::new(&sealed(), &key, &sender).unwrap();
        let open = |cluster: &str, node: &str| opened.bundle_for(cluster, node);
        assert!(open("demo", "c1").is_ok());
        assert!(matches!(open("demo", "c2"), Err(SealError::WrongNode { .. })));
        assert!(matches!(open("prod", "c1"), Err(SealError::WrongNode { .. })));
    }

    #[test]
    fn the_digest_of_kiln_is_read_from_any_format_and_is_no_part_of_the_bundle() {
        let ((key, recipient), (sender, sender_public)) = (seal_keypair(&[1; 32]), seal_keypair(&[9; 32]));
        let with_kiln = Bundle { kiln: Some("d1gest".into()), ..bundle() };
        let sealed = seal(&with_kiln, &recipient, &sender).unwrap();
        let opened = Opened::new(&sealed, &key, &sender_public).unwrap();
        assert_eq!((opened.kiln().as_deref(), opened.bundle()), (Some("d1gest"), Ok(bundle())));
        let newer = Opened { json: br#"{"format":99,"kiln":"d2gest","what":"ever"}"#.to_vec() };
        assert_eq!(newer.kiln().as_deref(), Some("d2gest"));
        assert!(matches!(newer.bundle(), Err(SealError::Content(ReadError::Newer { .. }))));
    }

    #[test]
    fn errors_do_not_quote_keys() {
        let error = unseal(b"x", &"KILN-SEAL-KEY-NOTAKEY".into(), "").unwrap_err();
        assert_eq!(error, SealError::BadKey);
        assert!(!format!("{error:?} {error}").contains("NOTAKEY"));
    }
}
