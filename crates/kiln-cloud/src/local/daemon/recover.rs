//! After a start: finish or clean up what the previous daemon left half done, and find the instances that
//! kept running meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use super::records::Phase;
use super::{Daemon, networks, store};
use crate::Result;
use crate::local::cgroup;

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
            if file_name(&dir).is_some_and(|id| !volumes.iter().any(|v| v == id)) {
                store::remove_tree(&dir)?;
            }
        }
        Ok(())
    }

    /// Leaves the host as it was found.
    pub fn leave(&self) {
        let _ = fs::remove_dir(&self.cgroup);
    }
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
