//! Which packages of an image have a newer version in the security suite of its system, as it is now.

use std::process::Stdio;
use std::time::Duration;

use kiln_cloud::Image;
use kiln_cloud::http::{self, Trust};
use kiln_distro::{Family, Security};
use kiln_image::{Manifest, Newer};
use kiln_spec::{ImageSpec, SourceSpec};
use kiln_wire::labels::image as property;
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::snapshots::architecture;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecurityUpdates {
    /// `ADDRESS SUITE`
    pub suite: String,
    pub newer: Vec<Newer>,
}

const TIMEOUT: Duration = Duration::from_secs(60);

/// Endings of a list, and what reads it. Debian has the first; small repositories may have only the last.
const ENDINGS: [(&str, Option<&str>); 3] = [(".xz", Some("xz")), (".gz", Some("gzip")), ("", None)];

impl Deployment<'_> {
    /// Asks the suite's server. What it says is for people to read: signatures are checked when an image is built.
    pub async fn security_updates(&self, image: &Image, manifest: &Manifest) -> Result<SecurityUpdates> {
        let unknown = || Error::NoSecuritySuite(image.name.clone());
        let name = image.properties.get(property::NAME);
        let spec = name.and_then(|name| self.spec.images.get(name)).ok_or_else(unknown)?;
        let security = Family::of_system(spec.system).security.as_ref().ok_or_else(unknown)?;
        let place = self.place(spec, security).ok_or_else(unknown)?;
        let mut newer = Vec::new();
        for component in &place.components {
            let list = (security.list)(&place.suite, component, architecture());
            let text = fetch(&format!("{}/{list}", place.address)).await?;
            newer.extend(manifest.newer_in(&(security.read)(&text)));
        }
        Ok(SecurityUpdates { suite: format!("{} {}", place.address, place.suite), newer })
    }

    /// Of the image's sources, where it is not a snapshot, which has nothing new.
    fn place(&self, image: &ImageSpec, security: &Security) -> Option<Place> {
        let mut own = image.sources.iter().filter_map(|name| self.spec.sources.get(name));
        own.find_map(|source| Place::of(source, security))
    }
}

struct Place {
    address: String,
    suite: String,
    components: Vec<String>,
}

impl Place {
    fn of(source: &SourceSpec, security: &Security) -> Option<Place> {
        let suite = source.suites.iter().find(|suite| suite.ends_with(security.suffix))?.clone();
        let upstream = source.pulp.as_ref().and_then(|pulp| pulp.upstream.clone());
        let is_open = source.snapshot.is_none() && source.credentials.is_none();
        let address = upstream.or_else(|| is_open.then(|| source.address.clone()))?;
        let address = address.trim_end_matches('/').to_string();
        Some(Place { address, suite, components: source.components.clone() })
    }
}

async fn fetch(url: &str) -> Result<String> {
    let wrong = |why: String| Error::SecurityList { url: url.to_string(), why };
    let client = http::secure(TIMEOUT, Trust::System).map_err(|e| wrong(e.message))?;
    for (ending, program) in ENDINGS {
        let sent = client.get(format!("{url}{ending}")).send().await;
        let response = sent.map_err(|e| wrong(http::failure(e).message))?;
        if response.status() == 404 {
            continue;
        }
        let response = response.error_for_status().map_err(|e| wrong(http::failure(e).message))?;
        let body = response.bytes().await.map_err(|e| wrong(http::failure(e).message))?;
        let text = match program {
            None => body.to_vec(),
            Some(program) => unpack(program, &body).await.map_err(|e| wrong(format!("{program}: {e}")))?,
        };
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    Err(wrong("it is not there".to_string()))
}

async fn unpack(program: &str, packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(["--decompress", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let stdin = child.stdin.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            stdin.write_all(packed).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let (_, output) = tokio::join!(write, child.wait_with_output());
    let output = output?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(std::io::Error::other("the list is damaged"))
    }
}
