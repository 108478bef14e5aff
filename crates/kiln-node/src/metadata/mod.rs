//! What the cloud tells an instance about itself. Each way in which clouds tell it has a file here and a line in the list
//! of providers.

mod config_drive;
mod oci;
mod openstack;

use std::path::PathBuf;
use std::time::Duration;

use kiln_wire::identity::Identity;

use crate::http::HttpError;

/// Reads the metadata; `None` if this machine is not one of those that the provider is for.
type Provider = fn(&Sources) -> Result<Option<Metadata>, MetadataError>;

/// In the order in which they are asked. Those that have to wait for the network come last.
const PROVIDERS: &[Provider] = &[config_drive::read, oci::read, openstack::read];

pub const ADDRESS: &str = "169.254.169.254";

#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("no config drive, and no answer from {url}")]
    NoAnswer { url: String, source: HttpError },
    #[error("cannot read the config drive")]
    Drive(#[source] std::io::Error),
    #[error("cannot mount the config drive: {0}")]
    Mount(String),
    /// Without the parser's words: they may quote what was parsed.
    #[error("the instance's meta_data.json is not what OpenStack describes")]
    Malformed,
    #[error(transparent)]
    Newer(#[from] kiln_wire::ReadError),
    #[error("no cloud tells this instance what it is")]
    Nowhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    ConfigDrive,
    Address,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Metadata {
    pub uuid: String,
    pub name: String,
    pub hostname: String,
    pub public_keys: Vec<String>,
    /// `None` when the user data is not Kiln's.
    pub identity: Option<Identity>,
    pub origin: Origin,
}

// Not derived: the identity holds keys.
impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metadata").field("uuid", &self.uuid).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where to look; the default is right on every node.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The config drive's content as a directory, as the local cloud gives it.
    pub directory: PathBuf,
    /// Look for a block device with the config drive's label.
    pub device: bool,
    pub url: String,
    pub oci_url: String,
    /// For how long the address is asked again before giving up.
    pub patience: Duration,
}

impl Default for Sources {
    fn default() -> Self {
        Sources {
            directory: "/mnt/config/openstack/latest".into(),
            device: true,
            url: format!("http://{ADDRESS}/openstack/latest"),
            oci_url: format!("http://{ADDRESS}/opc/v2"),
            patience: Duration::from_secs(120),
        }
    }
}

pub fn read() -> Result<Metadata, MetadataError> {
    read_from(&Sources::default())
}

/// The first provider that has something for this instance is believed.
pub fn read_from(sources: &Sources) -> Result<Metadata, MetadataError> {
    for provider in PROVIDERS {
        if let Some(metadata) = provider(sources)? {
            return Ok(metadata);
        }
    }
    Err(MetadataError::Nowhere)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::path::Path;

    const META: &str = r#"{"uuid": "u-1", "name": "demo-c1", "hostname": "demo-c1.novalocal", "launch_index": 0,
        "public_keys": {"kiln": "ssh-ed25519 AAAA kiln\n"}, "keys": [{"name": "kiln", "type": "ssh"}]}"#;
    const USER: &str = r#"{"kiln": {"cluster": "demo", "node": "c1", "role": "compute", "domain": "demo.internal",
        "seal_key": "KILN-SEAL-KEY-X", "share": {"nfs": "10.0.0.2:/srv/kiln/share"}}}"#;

    fn sources(directory: &Path, url: &str) -> Sources {
        Sources {
            directory: directory.into(),
            device: false,
            url: url.into(),
            oci_url: url.replace("/openstack/latest", "/opc/v2"),
            patience: Duration::from_millis(300),
        }
    }

    /// Answers `answers` requests, then is gone.
    fn serve(answers: usize, user_data: Option<&'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/openstack/latest", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().take(answers) {
                let mut stream = stream.unwrap();
                let mut request = vec![0; 4096];
                let count = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..count]).into_owned();
                let body = if request.starts_with("GET /openstack/latest/meta_data.json ") {
                    Some(META)
                } else if request.starts_with("GET /openstack/latest/user_data ") {
                    user_data
                } else {
                    None
                };
                let (status, body) = body.map_or(("404 Not Found", ""), |body| ("200 OK", body));
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
        url
    }

    #[test]
    fn the_config_drive_comes_first() {
        let drive = tempfile::tempdir().unwrap();
        std::fs::write(drive.path().join("meta_data.json"), META).unwrap();
        std::fs::write(drive.path().join("user_data"), USER).unwrap();
        let metadata = read_from(&sources(drive.path(), "http://127.0.0.1:1/")).unwrap();
        assert_eq!((metadata.uuid.as_str(), metadata.origin), ("u-1", Origin::ConfigDrive));
        assert_eq!(metadata.public_keys, ["ssh-ed25519 AAAA kiln"]);
        let identity = metadata.identity.clone().unwrap();
        assert_eq!((identity.node.as_str(), identity.build), ("c1", false));
        assert!(!format!("{metadata:?}").contains("KILN-SEAL"));
    }

    #[test]
    fn the_address_answers_where_there_is_no_drive() {
        let url = serve(3, Some(USER));
        let metadata = read_from(&sources(Path::new("/no/such"), &url)).unwrap();
        assert_eq!(metadata.origin, Origin::Address);
        assert_eq!(metadata.identity.unwrap().cluster, "demo");
    }

    #[test]
    fn user_data_of_others_is_no_identity() {
        let foreign = Some("#cloud-config\n{}");
        for user_data in [None, foreign] {
            let url = serve(3, user_data);
            assert!(read_from(&sources(Path::new("/no/such"), &url)).unwrap().identity.is_none());
        }
    }

    #[test]
    fn silence_is_an_error_after_a_while() {
        let error =
            read_from(&sources(Path::new("/no/such"), "http://127.0.0.1:1/openstack/latest")).unwrap_err();
        assert!(matches!(error, MetadataError::NoAnswer { .. }), "{error:?}");
    }
}
