//! Key pairs. Nova keeps them per user and has no labels for them, so the name says it all: whose cluster, and a
//! digest of the key, which proves that Kiln made it.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::driver::{Driver, missing};
use super::session::Service::Compute;
use crate::remote::encode;
use crate::{Class, Error, Result};

#[derive(Debug, Deserialize)]
struct Entry {
    keypair: KeyPair,
}

#[derive(Debug, Deserialize)]
struct KeyPair {
    name: String,
    #[serde(default)]
    public_key: String,
}

impl Driver {
    /// The name of the key pair for this key.
    pub(super) async fn ensure_key_pair(&self, cluster: &str, key: &str) -> Result<String> {
        if let Some(own) = &self.settings.key_pair {
            return Ok(own.clone());
        }
        let name = name(cluster, &self.client.project().await?, key);
        let mut known = self.known.key_pairs.lock().await;
        if !known.contains(&name) {
            self.make_key_pair(&name, key).await?;
            known.insert(name.clone());
        }
        Ok(name)
    }

    pub(super) async fn check_key_pair(&self) -> Result<()> {
        let Some(name) = &self.settings.key_pair else { return Ok(()) };
        let path = format!("/os-keypairs/{}", encode(name));
        match missing(self.client.get::<KeyPair>(Compute, &path, "keypair").await, "key pair", name) {
            Err(error) if error.is_not_found() => Err(error.with_hint(
                "key pairs are their owner's alone: whoever runs Kiln needs one of this name, and so does the user of \
                 `control_credential`",
            )),
            other => other.map(drop),
        }
    }

    async fn make_key_pair(&self, name: &str, key: &str) -> Result<()> {
        let path = format!("/os-keypairs/{}", encode(name));
        match self.client.get::<KeyPair>(Compute, &path, "keypair").await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let body = json!({ "keypair": { "name": name, "public_key": key.trim(), "type": "ssh" } });
        match self.client.request(Compute, Method::POST, "/os-keypairs", Some(&body)).retried().await {
            // Made by an earlier attempt, or by somebody at the same time: its name says that it is the same key.
            Ok(_) | Err(Error { class: Class::Conflict, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn delete_key_pairs(&self, cluster: &str) -> Result<()> {
        // Their list has names where others have ids, so it cannot be had page by page; a user has few.
        let answer = self.client.request(Compute, Method::GET, "/os-keypairs", None).retried().await?;
        let all: Vec<Entry> = super::client::take(answer, "keypairs", "/os-keypairs")?;
        let project = self.client.project().await?;
        for Entry { keypair } in all.iter().filter(|e| is_own(&e.keypair, cluster, &project)) {
            self.client.delete(Compute, &format!("/os-keypairs/{}", encode(&keypair.name))).await?;
        }
        Ok(())
    }
}

/// No cluster's name has an underscore, so no two clusters' names can run into one another. The same person may have a cluster
/// of this name in another project.
fn name(cluster: &str, project: &str, key: &str) -> String {
    digested(cluster, &format!("{project} {}", material(key)))
}

fn digested(cluster: &str, text: &str) -> String {
    format!("kiln_{cluster}_{}", &hex::encode(Sha256::digest(text))[..8])
}

/// Without the comment, which Nova may change.
fn material(key: &str) -> String {
    key.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Those of earlier releases say nothing of a project.
fn is_own(pair: &KeyPair, cluster: &str, project: &str) -> bool {
    pair.name == name(cluster, project, &pair.public_key)
        || pair.name == digested(cluster, &material(&pair.public_key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clusters_own_key_pairs_are_its_own() {
        let pair = |name: &str, key: &str| KeyPair { name: name.into(), public_key: key.into() };
        let key = "ssh-ed25519 AAAA kiln";
        let own = name("demo", "p", key);
        assert!(is_own(&pair(&own, "ssh-ed25519 AAAA Generated-by-Nova"), "demo", "p"));
        assert!(!is_own(&pair(&own, "ssh-ed25519 BBBB"), "demo", "p"));
        assert!(!is_own(&pair(&own, key), "other", "p") && !is_own(&pair(&own, key), "demo", "q"));
        assert!(!is_own(&pair("kiln_demo", key), "demo", "p"));
        assert!(
            is_own(&pair(&digested("demo", "ssh-ed25519 AAAA"), key), "demo", "p"),
            "of an earlier release"
        );
    }
}
