//! Oracle Cloud's metadata address, version 2: one document about the instance. Kiln's identity has a key of its own in it,
//! because `user_data` cannot change when an instance gets a new root.

use std::collections::BTreeMap;

use kiln_wire::identity::UserData;
use serde::Deserialize;

use super::openstack::get_patiently;
use super::{Metadata, MetadataError, Origin, Sources};

/// Without it the service does not answer: a header that nobody can be made to send by a link.
const HEADER: &str = "Authorization: Bearer Oracle";
/// As `kiln-cloud` calls it.
const IDENTITY: &str = "kiln";
const SSH_KEYS: &str = "ssh_authorized_keys";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    id: String,
    display_name: String,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

/// `None` on another cloud, whose address knows no such document.
pub(super) fn read(sources: &Sources) -> Result<Option<Metadata>, MetadataError> {
    let deadline = std::time::Instant::now() + sources.patience;
    let url = format!("{}/instance/", sources.oci_url);
    get_patiently(&url, &[HEADER], deadline)?.map(|document| parse(&document)).transpose()
}

fn parse(document: &[u8]) -> Result<Metadata, MetadataError> {
    let document: Document = serde_json::from_slice(document).map_err(|_| MetadataError::Malformed)?;
    let own = document.metadata.get(IDENTITY).map(String::as_str).unwrap_or_default();
    let keys = document.metadata.get(SSH_KEYS).map(String::as_str).unwrap_or_default();
    let keys = keys.lines().map(str::trim).filter(|key| !key.is_empty());
    Ok(Metadata {
        hostname: document.hostname.unwrap_or_else(|| document.display_name.clone()),
        public_keys: keys.map(String::from).collect(),
        identity: UserData::from_text(own.as_bytes())?.map(|data| data.kiln),
        uuid: document.id,
        name: document.display_name,
        origin: Origin::Address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_in_a_key_of_its_own() {
        let own = r#"{"kiln": {"cluster": "demo", "node": "c1", "role": "compute", "domain": "demo.internal",
            "seal_key": "KILN-SEAL-KEY-X", "share": {"nfs": "10.0.0.2:/srv/kiln/share"}}}"#;
        let document = serde_json::json!({
            "id": "ocid1.instance.oc1.phx.x", "displayName": "c1", "hostname": "c1", "region": "phx",
            "metadata": { "kiln": own, "ssh_authorized_keys": "ssh-ed25519 AAAA kiln\n", "user_data": "AA==" },
        });
        let metadata = parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(metadata.uuid, "ocid1.instance.oc1.phx.x");
        assert_eq!(metadata.public_keys, ["ssh-ed25519 AAAA kiln"]);
        assert_eq!(metadata.identity.unwrap().node, "c1");
    }

    #[test]
    fn an_instance_of_others_has_no_identity() {
        let metadata = parse(br#"{"id": "i", "displayName": "n"}"#).unwrap();
        assert!(metadata.identity.is_none() && metadata.public_keys.is_empty());
        assert!(matches!(parse(b"<html>"), Err(MetadataError::Malformed)));
    }
}
