//! Secrets, and what is kept of them.

use kiln_wire::SecretText;
use sha2::{Digest as _, Sha256};

/// 256 random bits.
pub fn mint() -> SecretText {
    hex::encode(rand::random::<[u8; 32]>()).into()
}

/// What is kept of a secret. With so many random bits, one round of a plain hash is enough.
pub fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

/// What a page of the session's own origin can know, and no other page: it is made from the session's secret, which not even the
/// page can read.
pub fn csrf(session: &str) -> String {
    hash(&format!("csrf of {session}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_not_kept() {
        let (one, other) = (mint(), mint());
        assert_ne!(one, other);
        assert_eq!(one.expose_secret().len(), 64);
        assert_ne!(hash(one.expose_secret()), one.expose_secret());
        assert_ne!(csrf(one.expose_secret()), hash(one.expose_secret()));
    }
}
