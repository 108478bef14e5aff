//! Sealing a bundle to its node, with age (X25519). Whoever reads the share without the node's key reads noise.

use crate::bundle::Bundle;
use age::secrecy::ExposeSecret;
use bech32::{Bech32, Hrp};

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("this is not an age recipient")]
    BadRecipient,
    /// Without detail: the detail would hold parts of the key.
    #[error("this is not an age identity")]
    BadIdentity,
    #[error("cannot seal the bundle")]
    Encrypt(#[from] age::EncryptError),
    #[error("the bundle cannot be opened with this node's key, or was tampered with")]
    Decrypt(#[from] age::DecryptError),
    #[error("cannot encode the bundle")]
    Encode(#[source] serde_json::Error),
    /// Without detail: the detail would quote the bundle.
    #[error("what was sealed is not a bundle this version of Kiln understands")]
    NotABundle,
    #[error("the bundle is for node `{found}` of cluster `{cluster}`, not for this node")]
    WrongNode { found: String, cluster: String },
}

pub fn seal(bundle: &Bundle, recipient: &str) -> Result<Vec<u8>, SealError> {
    let recipient: age::x25519::Recipient = recipient.trim().parse().map_err(|_| SealError::BadRecipient)?;
    let json = serde_json::to_vec(bundle).map_err(SealError::Encode)?;
    Ok(age::encrypt(&recipient, &json)?)
}

pub fn unseal(bytes: &[u8], identity: &str) -> Result<Bundle, SealError> {
    let json = age::decrypt(&parse_identity(identity)?, bytes)?;
    serde_json::from_slice(&json).map_err(|_| SealError::NotABundle)
}

/// A bundle that opens but names another node was put in the wrong place, by mistake or by intent.
pub fn unseal_for(bytes: &[u8], identity: &str, cluster: &str, node: &str) -> Result<Bundle, SealError> {
    let bundle = unseal(bytes, identity)?;
    if bundle.node == node && bundle.cluster == cluster {
        Ok(bundle)
    } else {
        Err(SealError::WrongNode { found: bundle.node, cluster: bundle.cluster })
    }
}

/// The identity (secret) and the recipient (public) that belong to a seed; always the same for the same seed.
pub fn seal_keypair(seed: [u8; 32]) -> Result<(String, String), SealError> {
    let hrp = Hrp::parse("age-secret-key-").map_err(|_| SealError::BadIdentity)?;
    let text = bech32::encode_upper::<Bech32>(hrp, &seed).map_err(|_| SealError::BadIdentity)?;
    let identity = parse_identity(&text)?;
    Ok((identity.to_string().expose_secret().to_owned(), identity.to_public().to_string()))
}

fn parse_identity(identity: &str) -> Result<age::x25519::Identity, SealError> {
    identity.trim().parse().map_err(|_| SealError::BadIdentity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        Bundle { cluster: "demo".into(), node: "c1".into(), role: "compute".into(), resources: Vec::new() }
    }

    #[test]
    fn a_seed_always_gives_the_same_keys() {
        let (identity, recipient) = seal_keypair([7; 32]).unwrap();
        assert!(identity.starts_with("AGE-SECRET-KEY-1") && recipient.starts_with("age1"));
        assert_eq!(seal_keypair([7; 32]).unwrap(), (identity.clone(), recipient));
        assert_ne!(seal_keypair([8; 32]).unwrap().0, identity);
    }

    #[test]
    fn only_the_nodes_own_key_opens() {
        let (identity, recipient) = seal_keypair([1; 32]).unwrap();
        let (other, _) = seal_keypair([2; 32]).unwrap();
        let sealed = seal(&bundle(), &recipient).unwrap();
        assert_eq!(unseal(&sealed, &format!("{identity}\n")).unwrap(), bundle());
        assert!(matches!(unseal(&sealed, &other), Err(SealError::Decrypt(_))));
    }

    #[test]
    fn tampering_is_seen_at_every_byte() {
        let (identity, recipient) = seal_keypair([1; 32]).unwrap();
        let sealed = seal(&bundle(), &recipient).unwrap();
        for position in 0..sealed.len() {
            let mut tampered = sealed.clone();
            tampered[position] ^= 1;
            assert!(unseal(&tampered, &identity).is_err(), "byte {position}");
        }
        assert!(unseal(&sealed[..sealed.len() - 1], &identity).is_err());
    }

    #[test]
    fn a_bundle_of_another_node_or_cluster_is_refused() {
        let (identity, recipient) = seal_keypair([1; 32]).unwrap();
        let sealed = seal(&bundle(), &recipient).unwrap();
        assert!(unseal_for(&sealed, &identity, "demo", "c1").is_ok());
        assert!(matches!(unseal_for(&sealed, &identity, "demo", "c2"), Err(SealError::WrongNode { .. })));
        assert!(matches!(unseal_for(&sealed, &identity, "prod", "c1"), Err(SealError::WrongNode { .. })));
    }

    #[test]
    fn errors_do_not_quote_keys() {
        let error = unseal(b"x", "AGE-SECRET-KEY-1NOTAKEY").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("NOTAKEY"));
    }
}
