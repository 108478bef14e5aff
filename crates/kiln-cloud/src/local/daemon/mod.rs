//! The daemon: keeps the records, does the work, answers the API and the metadata address.
//!
//! Under the root, readable by root only:
//!
//! | path | what |
//! | --- | --- |
//! | `api.sock` | where root of this host asks |
//! | `port`, `metadata-port` | where API and metadata are served on the gateway of each network |
//! | `place` | the path of the root that the records are of |
//! | `daemon.lock`, `daemon.log` | who serves, and what they say |
//! | `state/KIND/ID.json` | the records |
//! | `layers/ID/` | directories that root file systems are stacked from |
//! | `volumes/ID/data/` | what is on the volumes |
//! | `instances/ID/` | boot plan, config drive, console log |
//! | `tmp/` | work in progress, emptied at start |
//! | `exports/` | trees of images that are being exported |
//! | `faults.json`, `faults.lock` | failures ordered by a test, and who changes them just now |
//!
//! The core is synchronous code over [`Daemon`]; [`server`] is the thin asynchronous shell around it.

mod access;
mod connections;
mod faults;
mod firewall;
mod forward;
mod host;
mod images;
mod instances;
mod labels;
mod layers;
mod lifecycle;
mod metadata;
mod networks;
mod place;
mod records;
mod recover;
mod routes;
mod server;
mod source;
mod store;
mod supersede;
mod volumes;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use server::serve;

use super::{cgroup, names, needs};
use crate::{Error, Network, Result, SecurityGroup};
use records::{GrantRecord, ImageRecord, InstanceRecord, VolumeRecord};
use store::Table;

pub struct World {
    pub instances: Table<InstanceRecord>,
    pub images: Table<ImageRecord>,
    pub volumes: Table<VolumeRecord>,
    pub networks: Table<Network>,
    pub groups: Table<SecurityGroup>,
    pub grants: Table<GrantRecord>,
}

pub struct Daemon {
    root: PathBuf,
    port: u16,
    /// The metadata has a listener of its own, which only connections to 169.254.169.254 reach.
    metadata_port: u16,
    /// Tells this root's things on the host from those of other roots.
    mark: String,
    cgroup: PathBuf,
    world: Mutex<World>,
    /// One lock per instance, for whatever changes it.
    locks: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    sources: Mutex<HashMap<String, source::Progress>>,
    faults: Mutex<()>,
    last_request: Mutex<Instant>,
    program: Option<Program>,
}

/// The file this daemon was started from.
struct Program {
    path: PathBuf,
    identity: (u64, u64, i64, i64),
}

impl Program {
    fn own() -> Option<Program> {
        let path = std::env::current_exe().ok()?;
        let identity = Self::identity(&path)?;
        Some(Program { path, identity })
    }

    fn identity(path: &Path) -> Option<(u64, u64, i64, i64)> {
        let data = std::fs::metadata(path).ok()?;
        Some((data.dev(), data.ino(), data.mtime(), data.mtime_nsec()))
    }
}

/// A poisoned lock means a panic elsewhere; the records are written through, so what is there is sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Short and stable for a root directory.
fn mark(root: &Path) -> String {
    names::sha256_hex(root.as_os_str().as_encoded_bytes())[..8].to_string()
}

/// What a root's things on the host are called or marked with: its cgroup, nftables table, links and namespaces.
pub fn name_on_host(root: &Path) -> String {
    format!("kiln-{}", mark(root))
}

impl Daemon {
    fn open(root: &Path, port: u16, metadata_port: u16) -> Result<Self> {
        let state = root.join("state");
        let world = World {
            instances: Table::load(state.join("instances"))?,
            images: Table::load(state.join("images"))?,
            volumes: Table::load(state.join("volumes"))?,
            networks: Table::load(state.join("networks"))?,
            groups: Table::load(state.join("security-groups"))?,
            grants: Table::load(state.join("grants"))?,
        };
        place::check(root, world.instances.is_empty() && world.networks.is_empty())?;
        for dir in ["instances", "layers", "volumes", "tmp"] {
            store::make_dir(&root.join(dir))?;
        }
        let mark = mark(root);
        Ok(Daemon {
            cgroup: cgroup::hierarchy()?.join(name_on_host(root)),
            root: root.to_path_buf(),
            port,
            metadata_port,
            mark,
            world: Mutex::new(world),
            locks: Mutex::default(),
            sources: Mutex::default(),
            faults: Mutex::default(),
            last_request: Mutex::new(Instant::now()),
            program: Program::own(),
        })
    }

    fn name_on_host(&self) -> String {
        name_on_host(&self.root)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Holds off every other change to one instance.
    fn instance_lock(&self, id: &str) -> Arc<Mutex<()>> {
        Arc::clone(lock(&self.locks).entry(id.to_string()).or_default())
    }

    fn instance_dir(&self, id: &str) -> PathBuf {
        self.root.join("instances").join(id)
    }

    fn instance_cgroup(&self, id: &str) -> PathBuf {
        self.cgroup.join(id)
    }

    fn layer_dir(&self, id: &str) -> PathBuf {
        self.root.join("layers").join(id)
    }

    fn volume_dir(&self, id: &str) -> PathBuf {
        self.root.join("volumes").join(id)
    }

    /// Whether a newer program is in place of the one this daemon runs.
    fn is_outdated(&self) -> bool {
        self.program
            .as_ref()
            .is_some_and(|own| Program::identity(&own.path).is_some_and(|now| now != own.identity))
    }

    /// Nothing runs and nothing could: only images and volumes, if anything, are left.
    fn is_unused(&self) -> bool {
        let world = self.world();
        world.instances.is_empty() && world.networks.is_empty() && !self.is_making_source()
    }
}

/// The root's path goes into mount options and nspawn arguments, which have separators of their own.
fn check_root(root: &Path) -> Result<()> {
    let text = root.to_str().unwrap_or("");
    if !root.is_absolute() || text.is_empty() || text.contains([':', ',', '\\', '"', '\n', ' ']) {
        return Err(Error::refused(format!("{} cannot be the root of a local cloud", root.display())));
    }
    needs::short(root)
}
