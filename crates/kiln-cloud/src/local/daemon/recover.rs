//! After a start: finish or clean up what the previous daemon left half done, and find the instances that
//! kept running meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use super::records::Phase;
use super::{Daemon, networks, store};
use crate::local::cgroup;
use crate::{Error, Result};

impl Daemon {
    /// Returns the ids of instances that have to be built. What resists is logged and left: one broken thing
    /// must not keep the rest from being served.
    pub fn recover(&self) -> Result<Vec<String>> {
        let (networks, instances) = {
            let world = self.world();
            let networks: Vec<_> = world.networks.iter().cloned().collect();
            let instances: Vec<_> = world.instances.iter().map(|i| (i.id.clone(), i.phase.clone())).collect();
            (networks, instances)
        };
        // After a restart of the host the bridges are gone.
        for network in &networks {
            complain("bridge", self.make_bridge(network));
        }
        self.remove_stray_bridges();
        complain("firewall", networks::lock_host().and_then(|_locked| self.sync_firewall()));
        self.remove_strays(&instances.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>())?;

        let mut unbuilt = Vec::new();
        for (id, phase) in instances {
            match phase {
                Phase::Deleting => complain("deletion", self.finish_delete(&id)),
                Phase::Building | Phase::Rebuilding => unbuilt.push(id),
                Phase::Ready | Phase::Failed { .. } => {}
            }
        }
        Ok(unbuilt)
    }

    /// The part of recovery that may take long, as whole systems may have to be removed. Nobody has to wait
    /// for it; cut short, the next daemon goes on with it. `rubbish` is from [`Daemon::rubbish`].
    pub fn tidy(&self, rubbish: &[PathBuf]) {
        for path in rubbish {
            complain("rubbish", store::remove_tree(path));
        }
        self.drop_superseded();
        self.collect_layers();
    }

    /// Work in progress of the previous daemon. To be asked for before any of this one's begins.
    pub fn rubbish(&self) -> Vec<PathBuf> {
        list(&self.root.join("tmp"))
    }

    /// What belongs to no instance on record: left by a deletion that was cut short.
    fn remove_strays(&self, known: &[&str]) -> Result<()> {
        let stray = |name: &str| !known.contains(&name);
        for group in cgroup::children(&self.cgroup) {
            if file_name(&group).is_some_and(stray) {
                complain("cgroup", cgroup::destroy(&group));
            }
        }
        for dir in list(&self.root.join("instances")) {
            let Some(id) = file_name(&dir).filter(|id| stray(id)) else {
                continue;
            };
            self.unplug(id);
            store::remove_tree(&dir)?;
        }
        let volumes: Vec<_> = self.world().volumes.iter().map(|v| v.id.clone()).collect();
        for dir in list(&self.root.join("volumes")) {
            if let Some(id) = file_name(&dir).filter(|id| !volumes.iter().any(|v| v == id)) {
                complain("volume", set_aside(&self.root, &dir, id));
            }
        }
        Ok(())
    }

    /// Leaves the host as it was found.
    pub fn leave(&self) {
        let _ = fs::remove_dir(&self.cgroup);
    }
}

/// The data of a volume without a record: a deletion takes the data away by itself, so the record was lost. People decide
/// what becomes of it.
fn set_aside(root: &Path, dir: &Path, id: &str) -> Result<()> {
    let aside = root.join("set-aside");
    store::make_dir(&aside)?;
    let to = (0..1000)
        .map(|n| aside.join(if n == 0 { id.to_string() } else { format!("{id}.{n}") }))
        .find(|path| !path.exists())
        .unwrap_or_else(|| aside.join(id));
    fs::rename(dir, &to).map_err(|e| Error::failed(format!("cannot move {}", dir.display())).because(e))?;
    tracing::warn!(volume = id, kept = %to.display(), "a volume has no record; its data was set aside");
    Ok(())
}

fn complain(what: &str, result: Result<()>) {
    if let Err(error) = result {
        tracing::error!(%error, what, "cannot be brought in order");
    }
}

fn list(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|entries| entries.flatten().map(|e| e.path()).collect()).unwrap_or_default()
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_without_a_record_is_kept() {
        let root = tempfile::tempdir().unwrap();
        for content in ["first", "second"] {
            let dir = root.path().join("volumes/v1");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("file"), content).unwrap();
            set_aside(root.path(), &dir, "v1").unwrap();
            assert!(!dir.exists());
        }
        let kept = |name: &str| fs::read_to_string(root.path().join("set-aside").join(name).join("file"));
        assert_eq!((kept("v1").unwrap(), kept("v1.1").unwrap()), ("first".into(), "second".into()));
    }
}
