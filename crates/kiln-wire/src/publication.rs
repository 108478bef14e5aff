//! The share, seen from the control node: sealed bundles of the compute nodes, and the binary they should run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::format::{Format, Version};

const BUNDLES: &str = "bundles/digests.json";
const INDEX: &str = "bundles/index.json";
const KILN: &str = "bin/kiln";
/// The kiln of older images believes this file; for the present one it only spares reading the program.
const KILN_SUM: &str = "bin/kiln.sha256";

/// What the deploy host sends.
#[derive(Default, Serialize, Deserialize)]
pub struct Publication {
    #[serde(default)]
    pub format: Version<1>,
    /// Every node that should have a bundle, with the name of its content. Bundles of others are removed.
    pub digests: BTreeMap<String, String>,
    /// The bundles' own digests, as nodes know them.
    #[serde(default)]
    pub bundles: BTreeMap<String, String>,
    /// Base64 of the sealed bundles that changed.
    pub sealed: BTreeMap<String, String>,
}

impl Format for Publication {
    const NAME: &'static str = "publication";
    const VERSION: u32 = 1;
}

#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    #[error("{path} could not be written")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{0:?} cannot be the name of a node")]
    Name(String),
    #[error("the bundle of {0} is not base64")]
    Encoding(String),
    #[error("the bundle of {0} is neither here nor sent")]
    Missing(String),
}

/// What is on the share: the content's name of each node's bundle. Empty, so that everything is sent again, when the
/// index is damaged or the share has another binary than `kiln`.
pub fn published(share: &Path, kiln: &Path) -> BTreeMap<String, String> {
    let ours = fs::read(kiln).map(|bytes| hex::encode(Sha256::digest(bytes))).unwrap_or_default();
    let theirs = fs::read_to_string(share.join(KILN_SUM)).unwrap_or_default();
    if ours.is_empty() || ours != theirs.trim() {
        return BTreeMap::new();
    }
    index(share)
}

fn index(share: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(share.join(INDEX)).unwrap_or_default();
    let index: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
    index.into_iter().filter(|(node, _)| bundle_path(share, node).is_ok_and(|p| p.exists())).collect()
}

/// What kilnd compares nodes with: the digest of each node's bundle, and when they were published.
pub fn bundles(share: &Path) -> Option<(BTreeMap<String, String>, jiff::Timestamp)> {
    let path = share.join(BUNDLES);
    let digests = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let changed = fs::metadata(&path).and_then(|m| m.modified()).ok()?;
    Some((digests, changed.try_into().ok()?))
}

/// Writes the binary that new bundles name, then what was sent, then the index, then removes what is no longer wanted: at
/// every moment a booting node finds a whole bundle, and with a new one the kiln that it names.
pub fn publish(share: &Path, publication: &Publication, kiln: &Path) -> Result<(), ShareError> {
    let before = index(share);
    let kiln = publish_kiln(share, kiln)?;
    for (node, sealed) in &publication.sealed {
        let bytes = STANDARD.decode(sealed).map_err(|_| ShareError::Encoding(node.clone()))?;
        write(&bundle_path(share, node)?, &bytes, 0o644)?;
    }
    for node in publication.digests.keys() {
        if !bundle_path(share, node)?.exists() {
            return Err(ShareError::Missing(node.clone()));
        }
    }
    if before != publication.digests {
        let index = serde_json::to_vec_pretty(&publication.digests).unwrap_or_default();
        write(&share.join(INDEX), &index, 0o644)?;
    }
    if bundles(share).is_none_or(|(there, _)| there != publication.bundles) {
        let bundles = serde_json::to_vec_pretty(&publication.bundles).unwrap_or_default();
        write(&share.join(BUNDLES), &bundles, 0o644)?;
    }
    for node in before.keys().filter(|node| !publication.digests.contains_key(*node)) {
        let path = bundle_path(share, node)?;
        fs::remove_file(&path).map_err(|source| ShareError::Write { path, source })?;
    }
    // Last: all bundles are this binary's now.
    let sum = share.join(KILN_SUM);
    if is_text(&sum, &kiln) { Ok(()) } else { write(&sum, kiln.as_bytes(), 0o644) }
}

fn is_text(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|there| there.trim() == text)
}

/// A node that was just rebuilt has its image's binary; it takes this one instead. Returns its digest.
fn publish_kiln(share: &Path, kiln: &Path) -> Result<String, ShareError> {
    let failed = |source| ShareError::Write { path: kiln.to_path_buf(), source };
    let bytes = fs::read(kiln).map_err(failed)?;
    let digest = hex::encode(Sha256::digest(&bytes));
    let sum = share.join(KILN_SUM);
    if !is_text(&sum, &digest) {
        // Whoever comes after a run that was cut off finds no binary to rely on, and sends everything.
        match fs::remove_file(&sum) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(ShareError::Write { path: sum, source });
            }
            _ => write(&share.join(KILN), &bytes, 0o755)?,
        }
    }
    Ok(digest)
}

/// Where a node finds its sealed bundle. The name is older than the way of sealing, and stays: the kiln in an image that
/// was built earlier looks for this file before it runs the share's own kiln.
pub fn bundle_file(share: &Path, node: &str) -> PathBuf {
    share.join("bundles").join(format!("{node}.age"))
}

/// Whether anything was ever published on this share. An error, where its server does not answer.
pub fn is_begun(share: &Path) -> std::io::Result<bool> {
    share.join("bundles").try_exists()
}

/// Where nodes find the `kiln` they should run. Its digest is in each node's bundle.
pub fn kiln_file(share: &Path) -> PathBuf {
    share.join(KILN)
}

fn bundle_path(share: &Path, node: &str) -> Result<PathBuf, ShareError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if node.is_empty() || !node.chars().all(plain) {
        return Err(ShareError::Name(node.to_string()));
    }
    Ok(bundle_file(share, node))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), ShareError> {
    let failed = |source| ShareError::Write { path: path.to_path_buf(), source };
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(failed)?;
    let temporary = path.with_extension("new");
    let mut file = fs::File::create(&temporary).map_err(failed)?;
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(nodes: &[(&str, &str)]) -> Publication {
        Publication {
            format: Version,
            digests: nodes.iter().map(|(n, d)| (n.to_string(), d.to_string())).collect(),
            bundles: nodes.iter().map(|(n, d)| (n.to_string(), format!("bundle {d}"))).collect(),
            sealed: nodes.iter().map(|(n, d)| (n.to_string(), STANDARD.encode(d))).collect(),
        }
    }

    #[test]
    fn what_is_published_is_found_and_what_is_not_wanted_goes() {
        let dir = tempfile::tempdir().unwrap();
        let kiln = dir.path().join("kiln");
        fs::write(&kiln, "binary").unwrap();
        let share = dir.path().join("share");
        let sent = publication(&[("a", "1"), ("b", "2")]).to_json().unwrap();
        publish(&share, &Publication::from_json(&sent).unwrap(), &kiln).unwrap();
        assert_eq!(published(&share, &kiln).len(), 2);
        assert_eq!(fs::read_to_string(share.join("bin/kiln")).unwrap(), "binary");
        assert_eq!(bundles(&share).unwrap().0["b"], "bundle 2");

        let other = dir.path().join("other");
        fs::write(&other, "another binary").unwrap();
        assert!(published(&share, &other).is_empty());

        // Unchanged bundles are not sent again.
        let mut second = publication(&[("a", "1")]);
        second.sealed.clear();
        publish(&share, &second, &kiln).unwrap();
        assert_eq!(published(&share, &kiln).keys().collect::<Vec<_>>(), ["a"]);
        assert!(!share.join("bundles/b.age").exists());
    }

    #[test]
    fn a_name_cannot_leave_the_share() {
        let dir = tempfile::tempdir().unwrap();
        let kiln = dir.path().join("kiln");
        fs::write(&kiln, "binary").unwrap();
        let error = publish(dir.path(), &publication(&[("../x", "1")]), &kiln).unwrap_err();
        assert!(matches!(error, ShareError::Name(_)));
    }

    /// A node that boots meanwhile finds the binary that its new bundle names; a run that was cut off sends everything again.
    #[test]
    fn the_binary_is_there_before_the_bundles_that_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let share = dir.path().join("share");
        let [old, new] = ["old", "new"].map(|text| {
            let path = dir.path().join(text);
            fs::write(&path, text).unwrap();
            path
        });
        publish(&share, &publication(&[("a", "1")]), &old).unwrap();
        let mut cut_off = publication(&[("a", "2"), ("b", "2")]);
        cut_off.sealed.clear();
        assert!(matches!(publish(&share, &cut_off, &new), Err(ShareError::Missing(_))));
        assert_eq!(fs::read_to_string(kiln_file(&share)).unwrap(), "new");
        // Also if one goes back to the old one.
        assert!(published(&share, &new).is_empty() && published(&share, &old).is_empty());
        publish(&share, &publication(&[("a", "2"), ("b", "2")]), &new).unwrap();
        assert_eq!(published(&share, &new).len(), 2);
    }
}
