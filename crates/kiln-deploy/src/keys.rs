//! The keys of each node, derived from one seed: the sealing key of its bundle and its SSH host key.
//! Nothing is stored per node, and a rebuilt node keeps its host key.

use hmac::{Hmac, Mac as _};
use kiln_site::NodeKeys;
use kiln_wire::SecretText;
use sha2::Sha256;
use ssh_key::private::Ed25519Keypair;
use ssh_key::{LineEnding, PrivateKey};

use crate::error::{Error, Result};

#[derive(Debug)]
pub struct KeyRing {
    seed: SecretText,
}

impl KeyRing {
    pub fn new(seed: &SecretText) -> Self {
        KeyRing { seed: seed.expose_secret().trim().into() }
    }

    fn derive(&self, purpose: &str, node: &str) -> Result<[u8; 32]> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.seed.expose_secret().as_bytes())
            .map_err(|e| Error::Key(e.to_string()))?;
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(node.as_bytes());
        Ok(mac.finalize().into_bytes().into())
    }

    fn host_key(&self, node: &str) -> Result<PrivateKey> {
        let pair = Ed25519Keypair::from_seed(&self.derive("ssh host key", node)?);
        PrivateKey::new(pair.into(), node).map_err(|e| Error::Key(e.to_string()))
    }

    pub fn node(&self, node: &str) -> Result<NodeKeys> {
        let host = self.host_key(node)?;
        let wrong = |e: ssh_key::Error| Error::Key(e.to_string());
        let (seal_key, seal_recipient) = kiln_wire::seal_keypair(&self.derive("seal", node)?);
        Ok(NodeKeys {
            seal_key,
            seal_recipient,
            sender_key: self.sender()?.1,
            ssh_host_key: host.to_openssh(LineEnding::LF).map_err(wrong)?.as_str().into(),
            ssh_host_public: host.public_key().to_openssh().map_err(wrong)?,
        })
    }

    /// The deploy host's own pair, secret half first: nodes accept only what it sealed.
    pub fn sender(&self) -> Result<(SecretText, String)> {
        Ok(kiln_wire::seal_keypair(&self.derive("seal sender", "")?))
    }

    /// A line for known_hosts.
    pub fn known_host(&self, node: &str) -> Result<String> {
        let public = self.host_key(node)?.public_key().to_openssh().map_err(|e| Error::Key(e.to_string()))?;
        Ok(format!("{node} {public}"))
    }
}

/// The public half of an OpenSSH private key.
pub fn public_key(private: &SecretText) -> Result<String> {
    let wrong = |e: ssh_key::Error| Error::Key(e.to_string());
    PrivateKey::from_openssh(private.expose_secret()).map_err(wrong)?.public_key().to_openssh().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_not_shown() {
        let shown = format!("{:?}", KeyRing::new(&"s3cret".into()));
        assert!(shown.contains("KeyRing") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn keys_depend_on_seed_and_node_alone() {
        let ring = KeyRing::new(&"seed".into());
        let a = ring.node("a").unwrap();
        assert!(a == ring.node("a").unwrap());
        assert!(a != ring.node("b").unwrap());
        assert!(a != KeyRing::new(&"other".into()).node("a").unwrap());
        assert!(ring.known_host("a").unwrap().contains(a.ssh_host_public.split(' ').nth(1).unwrap()));
    }
}
