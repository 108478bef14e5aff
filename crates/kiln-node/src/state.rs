//! What Kiln remembers on a node, in `/var/lib/kiln`: what was applied, and which files and users are its
//! own. Nothing here is secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kiln_wire::Applied;
use kiln_wire::paths::{APPLIED, MANIFEST};
use serde::{Deserialize, Serialize};

use crate::tree::{Owner, Tree, TreeError};

/// What the last apply on this node was, if there was one.
pub fn applied(root: &Path) -> Option<Applied> {
    let bytes = Tree::open(root).ok()?.read(APPLIED).ok()??;
    serde_json::from_slice(&bytes).ok()
}

pub(crate) fn save_applied(tree: &Tree, applied: &Applied) -> Result<(), TreeError> {
    save(tree, APPLIED, applied)
}

/// Which files, links and users are Kiln's, and which reactions to changes are still owed: a run that was cut
/// short or failed between a file's change and the restart it calls for must not lose that restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub paths: BTreeSet<String>,
    /// Id of a service or command -> ids of the resources whose change it has yet to answer.
    #[serde(default)]
    pub owed: BTreeMap<String, BTreeSet<String>>,
    /// The users that Kiln made, by name. They stay here when they leave the bundle.
    #[serde(default)]
    pub users: BTreeMap<String, MadeUser>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MadeUser {
    /// A user of the same name with another number is somebody else's.
    pub uid: u32,
    /// Kiln locked it, and is to unlock it if it comes back.
    #[serde(default)]
    pub locked: bool,
}

impl Manifest {
    /// A manifest that cannot be read counts as empty: the next one replaces it.
    pub fn load(tree: &Tree) -> Result<Self, TreeError> {
        Ok(tree.read(MANIFEST)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    pub fn save(&self, tree: &Tree) -> Result<(), TreeError> {
        save(tree, MANIFEST, self)
    }
}

fn save(tree: &Tree, path: &str, value: &impl Serialize) -> Result<(), TreeError> {
    let mut json = serde_json::to_vec_pretty(value).map_err(|error| TreeError::Io {
        doing: "write",
        path: path.to_owned(),
        source: error.into(),
    })?;
    json.push(b'\n');
    tree.make_entry(path)?.write(&json, 0o644, process_owner())
}

/// Root, on a node.
pub(crate) fn process_owner() -> Owner {
    Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}
