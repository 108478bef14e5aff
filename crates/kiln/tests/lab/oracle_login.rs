//! What a person has who uses the fake of Oracle's services: a key, a profile, and their address.

use std::os::unix::fs::PermissionsExt as _;

use kiln_cloud::oci::fake::{Fake, REGION, TENANCY, USER};

use crate::cluster_dir::ClusterDir;

/// Variables for Kiln and for Oracle's own clients. The files are beside the cluster's.
pub fn environment(dir: &ClusterDir, fake: &Fake) -> Vec<(String, String)> {
    let key = dir.path("key.pem");
    let config = dir.path("oci-config");
    let text = format!(
        "[DEFAULT]\nuser={USER}\nfingerprint={}\ntenancy={TENANCY}\nregion={REGION}\nkey_file={}\n",
        Fake::fingerprint(),
        key.display()
    );
    for (path, content) in [(&key, Fake::key()), (&config, text)] {
        std::fs::write(path, content).expect("a file beside the cluster's");
        // Oracle's clients warn of anything else.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its rights");
    }
    let host = fake.url.trim_start_matches("http://").split(':').next().unwrap_or_default();
    [
        ("OCI_CLI_CONFIG_FILE", config.display().to_string()),
        ("OCI_CLI_ENDPOINT", fake.url.clone()),
        ("NO_PROXY", host.into()),
        ("no_proxy", host.into()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into()
}
